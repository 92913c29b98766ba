"""Commands that are made of what their requests declare."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource

from tare.base.errors import UsageError
from tare.observers.asked import When
from tare.programs.program import Program
from tare.studykit import options
from tare.studykit.answer import Answer, Output
from tare.studykit.attaching import attaching, optional_program, refuse_others
from tare.studykit.request import Asking, Decorator, Request, own_fields, subject_of
from tare.studykit.watcher import watcher

_Function = Callable[..., Any]


@dataclass(frozen=True)
class _Taken:
    """A request that the command can make. ``subject`` is its field that says what it is about;
    ``parameters`` are those of the command that make each of its own fields."""

    request: type[Asking]
    subject: str
    parameters: Mapping[str, Sequence[click.Parameter]]

    @property
    def runs(self) -> bool:
        return self.subject in ("program", "programs")


def command_of(study: str) -> click.Command:
    """Of the study whose package is ``study``, by the ``REQUESTS`` of its module ``request``; where
    that has ``OF_PROCESS``, this function answers for a process that runs already."""
    module = importlib.import_module(f"{study}.request")
    requests: Sequence[type[Request]] = module.REQUESTS

    def answer(request: Request, output: Output) -> Answer:
        module, name = request.ANSWERED_BY.split(".")
        question = importlib.import_module(f"{study}.{module}")
        results = inspect.unwrap(getattr(question, name))(request)
        exit_code = question.exit_code(results) if hasattr(question, "exit_code") else None
        opens = getattr(request, "open", False)
        return Answer(results, output, exit_code=exit_code, opens=opens)

    output = functools.partial(options.output_options, brief=requests[0].BRIEF)
    common = (options.run_options, output)
    if (attached := getattr(module, "OF_PROCESS", None)) is None:
        return asking(requests, common=common)(answer)

    def of_process(pid: int, when: When, given: Mapping[str, Any]) -> Answer:
        refuse_others({"json_file", "csv_file", "no_page"})
        output: Output = given["output"]
        question = importlib.import_module(f"{study}.question")
        results = getattr(question, attached)(
            pid, when, folder=output.folder, watcher=watcher(output.quiet)
        )
        return Answer(results, output)

    own = attaching(of_process, module.OF_PROCESS_HELP)
    return optional_program(asking(requests, common=(*common, own))(answer))


def asking(
    requests: Sequence[type[Asking]],
    *others: Decorator,
    common: Sequence[Decorator] = (options.run_options, options.output_options),
) -> Callable[[_Function], click.Command]:
    """Makes a command of a function that answers a ``request``.

    It has the options of ``requests``, ``others`` and those in ``common``; what is no part of a
    request is handed to the function as well. The first request has the help and the examples,
    another one is for what is recorded already.
    """
    taken = [_taken(request) for request in requests]
    first = taken[0]
    decorators = {
        name: declared.metadata["decorated"](name)
        for each in reversed(taken)
        for name, declared in own_fields(each.request).items()
    }
    order = dict.fromkeys(name for each in taken for name in own_fields(each.request))
    if first.runs:
        argument = options.program_argument
    else:
        argument = subject_of(first.request).metadata.get("argument", options.trace_argument)

    def decorate(answer: _Function) -> click.Command:
        def asked(**values: Any) -> Any:
            request = _request(taken, values)
            parts = {*order, "program", "trace", "suite", "limits", "seed"}
            others = {name: value for name, value in values.items() if name not in parts}
            return answer(request, **others)

        function: _Function = asked
        for decorator in (argument, *reversed(common), *reversed(others)):
            function = decorator(function)
        for name in reversed(order):
            function = decorators[name](function)
        return click.command(
            help=inspect.getdoc(first.request),
            epilog=f"\b\nExamples:\n{first.request.EXAMPLES}" if first.request.EXAMPLES else None,
            context_settings={"allow_interspersed_args": False} if first.runs else {},
        )(function)

    return decorate


def _taken(request: type[Asking]) -> _Taken:
    parameters = {
        name: _parameters(declared.metadata["decorated"](name))
        for name, declared in own_fields(request).items()
    }
    return _Taken(request, subject_of(request).name, parameters)


def _parameters(decorator: Callable[[_Function], _Function]) -> Sequence[click.Parameter]:
    def nothing() -> None:
        pass

    return tuple(getattr(decorator(nothing), "__click_params__", ()))


def _request(taken: Sequence[_Taken], values: Mapping[str, Any]) -> Asking:
    chosen, subject = _chosen(taken, values)
    for other in taken:
        _refuse(other.parameters.keys() - chosen.parameters.keys(), other, chosen, subject)
    given = {**_given(chosen, values), chosen.subject: subject}
    given.update((name, values[name]) for name in ("limits", "seed") if name in values)
    output = values.get("output")
    if output is not None:
        given["folder"] = output.folder
    quiet = values["quiet"] if output is None else output.quiet
    return chosen.request(**given, watcher=watcher(quiet))


def _chosen(taken: Sequence[_Taken], values: Mapping[str, Any]) -> tuple[_Taken, Any]:
    """The request that fits what the command line is about, and the value of its subject."""
    by_subject = {each.subject: each for each in taken}
    for name in ("trace", "suite"):
        if name in values:
            return by_subject[name], values[name]
    program: Program = values["program"]
    if "traces" in by_subject and (traces := options.traces_of(program)):
        if len(traces) == 1 and "trace" in by_subject and not values.get("scheduler"):
            return by_subject["trace"], traces[0]
        return by_subject["traces"], traces
    if "trace" in by_subject and (recorded := options.trace_of(program)) is not None:
        return by_subject["trace"], recorded
    return taken[0], program


def _refuse(names: set[str], other: _Taken, chosen: _Taken, subject: Any) -> None:
    """Options of ``other`` that the user gave, where ``chosen`` has nothing of the kind."""
    flags = [
        max(parameter.opts, key=len)
        for name in sorted(names)
        for parameter in other.parameters[name]
        if _is_typed(parameter)
    ]
    if not flags:
        return
    verb = "applies" if len(flags) == 1 else "apply"
    if chosen.runs:
        recorded = "traces" if other.subject == "traces" else "a recorded T.tare"
        raise UsageError(
            f"{', '.join(flags)} {verb} only to {recorded}",
            f"record with {other.request.RECORDED_BY} first",
        )
    recorded = subject[0] if isinstance(subject, list) else subject
    raise UsageError(
        f"{recorded} is recorded: its program does not run again",
        f"leave out the options of runs: {', '.join(flags)}",
    )


def _given(chosen: _Taken, values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that the user said something of; the others keep their defaults. A flag stands for
    the opposite of its field's default."""
    fields = own_fields(chosen.request)
    return {
        name: not fields[name].default if isinstance(fields[name].default, bool) else values[name]
        for name, parameters in chosen.parameters.items()
        if any(map(_is_typed, parameters))
    }


def _is_typed(parameter: click.Parameter) -> bool:
    source = click.get_current_context().get_parameter_source
    return parameter.name is not None and source(parameter.name) is ParameterSource.COMMANDLINE
