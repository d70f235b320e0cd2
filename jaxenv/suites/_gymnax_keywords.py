"""Keywords of ``load("gymnax:...")``: constructor arguments of gymnax, and params."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from jaxenv._checks import is_real
from jaxenv._declared import check_option
from jaxenv._make import OPTIONS
from jaxenv._names import unknown_keyword
from jaxenv.suites import _gymnax_tasks
from jaxenv.suites._gymnax_single import Single, check_id, freeze, gymnax, single


def split_keywords(id: str, given: Mapping[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Splits keywords into options and params.

    Returns:
        The options, constructor arguments and params that determine a spec, as sorted pairs of name and value; and the
        values of the other params.

    Raises:
        ValueError: for an unknown keyword, listing the valid ones, or an invalid value.
    """
    check_id(id)
    owner, spec_params = f"gymnax:{id}", _gymnax_tasks.SPEC_PARAMS.get(id, ())
    constructor, takes_any = _arguments(gymnax().registration._registry[id])
    options = {name: _option(owner, name, given[name], constructor[name]) for name in given if name in constructor}
    if takes_any:  # a factory that passes its keywords on
        try:
            constructor |= _arguments(type(single(id, tuple(sorted(options.items()))).env))[0]
        except ValueError:  # it cannot be built without further arguments, so all keywords are accepted
            constructor |= dict.fromkeys(given.keys() - constructor.keys(), inspect.Parameter.empty)
    for name in given:
        if name in spec_params:
            options[name] = _spec_param(owner, name, given[name])
        elif name in constructor:
            options[name] = _option(owner, name, given[name], constructor[name])
    chosen = tuple(sorted(options.items()))
    env = single(id, chosen)
    params = [field.name for field in dataclasses.fields(env.params)]
    values = {name: value for name, value in given.items() if name not in options}
    for name, value in values.items():
        if name not in params:
            check_settable(owner, name, env, value)
            groups = {"params": params, "constructor arguments": [*constructor, *spec_params]}
            raise ValueError(unknown_keyword(owner, name, {**groups, "options of make": OPTIONS}))
    if options:
        env.check(owner, chosen)
    return chosen, values


def check_settable(owner: str, name: str, env: Single, value: Any) -> None:
    """Raises a ``ValueError`` for a field of gymnax's ``EnvParams`` that cannot be set as a param."""
    got = f", got {value!r}"
    if name == "max_steps_in_episode":
        raise ValueError(f"{owner}: max_steps_in_episode is the time limit, pass max_episode_steps to load{got}")
    if name in env.derived:
        raise ValueError(f"{owner}: {name} is computed from other params, pass those{got}")
    if name in env.fixed:
        default = getattr(env.defaults, name)
        raise ValueError(f"{owner}: {name} is not a number and must stay {default!r}{got}")


def _arguments(function: Callable) -> tuple[dict[str, Any], bool]:
    """The named parameters of a function with their defaults, and whether it takes arbitrary keywords."""
    parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return {p.name: p.default for p in named}, any(p.kind is p.VAR_KEYWORD for p in parameters)


def _option(owner: str, name: str, value: Any, default: Any) -> Any:
    """A constructor argument in hashable form, checked against the type of its default."""
    frozen = freeze(value)
    try:
        hash(frozen)
    except TypeError:
        raise ValueError(f"{owner}: {name} must be hashable, an array or a list, got {value!r}") from None
    return check_option(owner, name, frozen, default)


def _spec_param(owner: str, name: str, value: Any) -> float:
    if not is_real(value):
        raise ValueError(f"{owner}: {name} determines a spec and must be one number, got {value!r}")
    return float(value)
