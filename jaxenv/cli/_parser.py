"""The parser of the command line. It imports the module of a command when that command is parsed."""

import argparse
import importlib
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from jaxenv._util.names import did_you_mean


class Help(argparse.ArgumentDefaultsHelpFormatter):
    """A formatter that shows defaults, except None, False and an empty list."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        hidden = action.default is None or action.default is False or action.default == []
        return action.help if hidden else super()._get_help_string(action)


class Parser(argparse.ArgumentParser):
    """A parser that reports errors in one line, without the usage.

    Args:
        module: the module of a command, which ``add(parser)`` gives its description and arguments. It is imported when
            the parser first parses.
        **kwargs: arguments of ``argparse.ArgumentParser``.
    """

    def __init__(self, module: str | None = None, **kwargs: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=Help, **kwargs)
        self._module = module

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._module is not None:
            module, self._module = self._module, None
            importlib.import_module(module).add(self)
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.refuse_unknown(unknown)
        return namespace, unknown

    def refuse_unknown(self, arguments: Sequence[str]) -> None:
        """Exits with code 2; for an option, suggests the closest one of this command."""
        option = arguments[0].partition("=")[0]
        hint = did_you_mean(option, self._option_string_actions) if option.startswith("-") else ""
        self.error(f"unrecognized arguments: {' '.join(arguments)}{hint and f', {hint}'}")

    def error(self, message: str) -> NoReturn:
        if choice := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
            hint = did_you_mean(choice[1], re.findall(r"\w+", choice[2]))
            message += f", {hint}" if hint else ""
        self.exit(2, f"{self.prog}: error: {message}\n")
