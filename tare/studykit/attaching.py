"""Options of commands that also look at a process that runs already."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import click
from click.core import ParameterSource

from tare.base.errors import UsageError
from tare.observers.asked import When
from tare.studykit import options

_WHEN = (
    click.option(
        "--when-resident",
        metavar="SIZE",
        callback=lambda context, parameter, text: options.size(context, parameter, text) or 0,
        help="With --attach: wait until the process has more than this resident. Tare looks once a "
        "second, from outside.",
    ),
    click.option(
        "--when-signal",
        metavar="NAME",
        callback=options.signal_number,
        help="With --attach: wait until this Tare gets the signal, USR1 say. With --when-resident, "
        "for whichever comes first.",
    ),
)
_ATTACHED = {"attach", "when_resident", "when_signal", "folder", "quiet"}


def attaching(
    answer: Callable[[int, When, Mapping[str, Any]], Any],
    help: str,
    *more: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds --attach, of which ``help`` says what it does, when to begin, and ``more`` options that
    go with it: then ``answer`` is called with the process, when, and the command's parameters. A
    command has it inside of what else packs its parameters; ``optional_program`` comes after."""
    pid = click.option("--attach", type=click.IntRange(min=1), metavar="PID", help=help)
    added: tuple[Callable[[Callable[..., Any]], Callable[..., Any]], ...] = (pid, *more, *_WHEN)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def chosen(**given: Any) -> Any:
            own = {name: given.pop(name) for name in names}
            if (process := own.pop("attach")) is not None:
                if given["program"] or given["stdin"]:
                    raise UsageError(
                        "--attach is instead of a PROGRAM", "leave out the one or the other"
                    )
                when = When(own.pop("when_resident"), own.pop("when_signal"))
                return answer(process, when, {**given, **own})
            for name, value in own.items():
                if value:
                    raise UsageError(f"{names[name]} goes with --attach PID")
            if not given["program"]:
                raise click.MissingParameter(
                    param_hint="'-- PROGRAM [ARG…]'", param_type="argument"
                )
            return function(**given)

        known = {each.name for each in getattr(function, "__click_params__", ())}
        extended: Callable[..., Any] = chosen
        for option in reversed(added):
            extended = option(extended)
        names = {
            str(each.name): each.opts[0]
            for each in getattr(extended, "__click_params__", ())
            if each.name not in known
        }
        return extended

    return decorate


def optional_program(command: click.Command) -> click.Command:
    """With --attach there is none."""
    next(each for each in command.params if each.name == "program").required = False
    return command


def refuse_others(allowed: set[str]) -> None:
    """Options that the user gave and that do nothing with --attach."""
    context = click.get_current_context()
    flags = [
        max(each.opts, key=len)
        for each in context.command.params
        if each.name not in allowed | _ATTACHED
        and each.name is not None
        and context.get_parameter_source(each.name) is ParameterSource.COMMANDLINE
    ]
    if flags:
        raise UsageError(
            f"with --attach no program is run: {', '.join(flags)} would do nothing",
            f"leave out {', '.join(flags)}",
        )
