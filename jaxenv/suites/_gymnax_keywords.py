"""Keywords of ``load("gymnax:...")``: constructor arguments of gymnax, and params."""

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

from jaxenv._util.checks import is_real
from jaxenv.suites import _gymnax_tasks
from jaxenv.suites._gymnax_single import GymnaxSingle, check_id, gymnax, single
from jaxenv.suites._options import arguments_of, check_unknown, checked_option


def split_keywords(id: str, given: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Splits keywords into options and params.

    Returns:
        The options, constructor arguments and params that determine a spec, as sorted pairs of name and value; and the
        values of the other params.
    """
    check_id(id)
    owner, spec_params = f"gymnax:{id}", _gymnax_tasks.SPEC_PARAMS.get(id, ())
    constructor, takes_any = arguments_of(gymnax().registration._registry[id])
    options = {
        name: checked_option(owner, name, given[name], constructor[name]) for name in given if name in constructor
    }
    if takes_any:  # a factory that passes its keywords on
        try:
            constructor |= arguments_of(type(single(id, tuple(sorted(options.items()))).env))[0]
        except ValueError:  # it cannot be built without further arguments, so all keywords are accepted
            constructor |= dict.fromkeys(given.keys() - constructor.keys(), inspect.Parameter.empty)
    for name in given:
        if name in spec_params:
            options[name] = _spec_param(owner, name, given[name])
        elif name in constructor:
            options[name] = checked_option(owner, name, given[name], constructor[name])
    chosen = tuple(sorted(options.items()))
    env = single(id, chosen)
    params = [field.name for field in dataclasses.fields(env.params)]
    values = {name: value for name, value in given.items() if name not in options}
    for name, value in values.items():
        if name not in params:
            check_settable(owner, name, env, value)
    check_unknown(owner, values, params, [*constructor, *spec_params])
    if options:
        env.check(chosen)
    return chosen, values


def check_settable(owner: str, name: str, env: GymnaxSingle, value: Any) -> None:
    """Raises a ``ValueError`` for a field of gymnax's ``EnvParams`` that cannot be set as a param."""
    got = f", got {value!r}"
    if name == "max_steps_in_episode":
        raise ValueError(f"{owner}: max_steps_in_episode is the time limit, pass max_episode_steps to load{got}")
    if name in env.derived:
        raise ValueError(f"{owner}: {name} is computed from other params, pass those{got}")
    if name in env.fixed:
        default = getattr(env.defaults, name)
        raise ValueError(f"{owner}: {name} is not a number and must stay {default!r}{got}")


def _spec_param(owner: str, name: str, value: Any) -> float:
    if not is_real(value):
        raise ValueError(f"{owner}: {name} determines a spec and must be one number, got {value!r}")
    return float(value)
