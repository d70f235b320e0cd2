"""Attributes of exported environments, which programs of other libraries read but do not set."""

import dataclasses
from typing import Any, ClassVar

from jaxenv.core.environment import Environment
from jaxenv.interop._lanes import params_of

# Private attributes of Gymnasium's own environments and wrappers that programs set.
_OF_OTHERS = ("_elapsed_steps", "_max_episode_steps")


class Fixed:
    """Refuses new attributes, and new values of public ones, once ``_is_fixed`` is set: the step would ignore them.

    Methods may be replaced; private attributes belong to the class itself.
    """

    _owner: ClassVar[str]
    _settable: ClassVar[frozenset[str]] = frozenset()
    _is_fixed = False

    def __setattr__(self, name: str, value: Any) -> None:
        private = name[0] == "_" and name not in _OF_OTHERS
        free = private or name in self._settable or callable(getattr(type(self), name, None))
        if self._is_fixed and not free:
            raise AttributeError(not_settable(self._owner, self._exported, name, value), name=name, obj=self)
        super().__setattr__(name, value)

    @property
    def _exported(self) -> Environment:
        return self.__dict__["env" if "env" in self.__dict__ else "_env"]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}{self._exported!r}>"


def not_settable(owner: str, env: Environment, name: str, value: Any) -> str:
    """Returns the message about an attribute that a program tries to set."""
    options = {field.name for field in dataclasses.fields(env.unwrapped)} - {"num_envs", "name"}
    if hasattr(params_of(env), name) or name in options:
        how = f"give it where the environment is made: {owner}({env.name!r}, {name}={value!r})"
    else:
        how = (
            "nothing would read it: docs/howto/branch.md steps from a state, "
            "docs/howto/start-states.md chooses where episodes start"
        )
    return f"{owner}: {name} cannot be set, {how}"
