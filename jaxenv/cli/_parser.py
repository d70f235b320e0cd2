"""The parser of the command line. It imports the module of a command when that command is parsed."""

import argparse
import importlib
import re
from types import ModuleType
from typing import Any, NoReturn

from jaxenv._util import source
from jaxenv._util.names import did_you_mean, meaning


class Help(argparse.ArgumentDefaultsHelpFormatter):
    """A formatter that shows defaults, except None, False and an empty list."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        hidden = action.default is None or action.default is False or action.default == []
        return action.help if hidden else super()._get_help_string(action)


class Parser(argparse.ArgumentParser):
    """A parser that reports errors in one line, without the usage.

    ``module`` defines a command and is imported when the parser first parses. Its docstring is the description, and
    after a blank line the epilog; ``add(parser)`` adds the arguments, and ``run(args)`` runs the command.
    """

    def __init__(self, module: str | None = None, **kwargs: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=Help, **kwargs)
        self._name = module
        self._module: ModuleType | None = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._name is not None and self._module is None:
            try:
                self._module = importlib.import_module(self._name)
            except ImportError as missing:
                is_extra = "rich" in str(missing.name)
                self.error(str(source.missing("the command", missing, "cli") if is_extra else missing))
            self.description, _, self.epilog = (self._module.__doc__ or "").partition("\n\n")
            self.set_defaults(parser=self)
            self._module.add(self)
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:
            hint = self._hint(unknown[0].partition("=")[0])
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint and f', {hint}'}")
        return namespace, unknown

    def _hint(self, option: str) -> str:
        """Says what to write in place of an unknown option; ``explain_option(name)`` of the module may know."""
        if not option.startswith("-"):
            return ""
        explain = getattr(self._module, "explain_option", lambda name: "")
        every = "--env NAME=VALUE sets params and options of the environment"
        every = every if "--env" in self._option_string_actions else ""
        hint = meaning(option) or explain(option.lstrip("-").replace("-", "_"))
        return hint or did_you_mean(option, self._option_string_actions, otherwise=every)

    def run(self, args: argparse.Namespace) -> None:
        """Runs the command; wrong input ends with exit code 2."""
        if self._module is None:
            self.print_help()
            return
        try:
            self._module.run(args)
        except BrokenPipeError:
            raise
        except (ImportError, OSError, TypeError, ValueError) as error:
            self.error(str(error).removeprefix(f"{args.command}: "))

    def error(self, message: str, status: int = 2) -> NoReturn:
        if choice := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
            hint = did_you_mean(choice[1], re.findall(r"\w+", choice[2]))
            message += f", {hint}" if hint else ""
        self.exit(status, f"{self.prog}: error: {' '.join(message.split())}\n")
