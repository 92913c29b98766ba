"""What is asked of a study, declared once, as a frozen dataclass with a field for each parameter.

From it come the command's options (``tare.studykit.command``), the signature of the function
(``answers``), and what is recorded as asked (``Request.asked``). A study's module ``request`` has
``REQUESTS``: its class, and where it also takes a heap trace, that class, too.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, Field, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, TypeVar

import click

from tare.campaign.watching import Watcher
from tare.programs.program import Program
from tare.records.results import default_folder
from tare.records.runs import Limits
from tare.studykit import options
from tare.studykit.sweeps import numbers_of

if TYPE_CHECKING:
    from tare.campaign.session import Where

Command = Program | Sequence[str]
_SUBJECTS = {"program", "programs", "trace", "traces", "suite"}
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
_Parameters = ParamSpec("_Parameters")
_Asked = TypeVar("_Asked", bound="Asking")
_Answer = TypeVar("_Answer")


def option(
    default: Any,
    *flags: str,
    parse: Callable[[str], Any] | None = None,
    asked: bool = True,
    last: bool = False,
    **settings: Any,
) -> Any:
    """A field that is an option of the command, named after it unless ``flags`` says otherwise.

    ``parse`` makes the value of what is typed; ``settings`` are click's. ``asked``: it is recorded
    as a part of the question; ``last``: it stands behind the others. A flag stands for the opposite
    of ``default``.
    """

    def decorated(name: str) -> Decorator:
        named = any(flag.startswith("--") for flag in flags)
        spelled = flags if named else (*flags, f"--{name.replace('_', '-')}")
        chosen = dict(settings)
        if isinstance(default, bool):
            chosen.update(is_flag=True, default=False)
        elif parse is not None:
            chosen["callback"] = _parsing(parse)
        elif isinstance(default, int):
            chosen.update(default=default, show_default=True)
        return click.option(*spelled, name, **chosen)

    metadata = {"decorated": decorated, "asked": asked, "last": last}
    return field(default=default, metadata=metadata)


def packed(default: Any, decorator: Decorator) -> Any:
    """A field that is made of several options: ``decorator`` adds them, and gives the field."""
    return field(default=default, metadata={"decorated": lambda _name: decorator})


def suite_argument(metavar: str) -> Any:
    """The field of a suite, which its name or its file says."""
    return field(metadata={"argument": click.argument("suite", metavar=metavar)})


def managers_option(default: Sequence[str] = (), help: str = options.MANAGERS_HELP) -> Any:
    """The field of option -m."""
    return option(default, "-m", "--manager", multiple=True, metavar="M", help=help, asked=False)


def baseline_option(help: str = options.BASELINE_HELP) -> Any:
    return option("", metavar="M", help=help, asked=False)


def only_option() -> Any:
    """The field of option -p."""
    help = "Measure only this program; can be repeated."
    return option((), "-p", "--program", multiple=True, metavar="P", help=help, asked=False)


def metrics_option(where: str) -> Any:
    """Figures that are read from what is printed, see ``tare.studykit.printed``."""
    return option(
        (),
        "--metric",
        multiple=True,
        metavar="NAME=PATTERN",
        help=f"How to find a figure in {where}: a regular expression whose first group is rps, "
        "p50, p90, p99, p99.9, p99.99, max or number; can be repeated. Times without a unit are "
        "seconds.",
    )


def runs_option(default: int, help: str) -> Any:
    return option(default, "-n", help=help)


def warmup_option() -> Any:
    return option(1, help="Warm-up runs under each manager, which are not counted.")


def scheduler_option(help: str = options.SCHEDULER_HELP) -> Any:
    return option("", metavar="ADDRESS", help=help, asked=False)


def heaps_option(of: str, default: Sequence[float]) -> Any:
    """Heaps in multiples of what ``of`` says."""
    shown = ",".join(f"{heap:g}" for heap in default)
    return option(
        tuple(default),
        parse=numbers_of,
        metavar="X,X…",
        help=f"Heap sizes in multiples of {of}, from 1 to 64, at most 12 of them. Default: "
        f"{shown}.",
    )


def _parsing(parse: Callable[[str], Any]) -> Callable[..., Any]:
    def callback(
        _context: click.Context, _parameter: click.Parameter, text: str | tuple[str, ...] | None
    ) -> Any:
        if isinstance(text, tuple):  # of an option that can be repeated
            return tuple(value for each in text for value in parse(each))
        return None if text is None else parse(text)

    return callback


@dataclass(frozen=True, kw_only=True)
class Asking:
    """What all commands that run programs are given. The docstring of a class is the help of its
    command; without a ``folder`` a new one is made below tare-results."""

    EXAMPLES: ClassVar[str] = ""
    RECORDED_BY: ClassVar[str] = "tare trace"
    """Where a request is of traces: the command that records them."""
    BRIEF: ClassVar[bool] = False
    """Whether the terminal has the verdict alone unless tables are asked for."""

    limits: Limits | None = None
    folder: Path | str | None = None
    watcher: Watcher | None = None


@dataclass(frozen=True, kw_only=True)
class Request(Asking):
    """What all studies are given. ``ANSWERED_BY`` names the function that answers, MODULE.FUNCTION
    below the folder of the study. A ``folder`` that holds an interrupted study of the same question
    is resumed."""

    ANSWERED_BY: ClassVar[str]

    seed: int | None = None

    def asked(self) -> dict[str, Any]:
        """What run.json records of the question beside programs and managers. A folder that
        recorded something else is not resumed."""
        return {each.name: getattr(self, each.name) for each in fields(self) if _is_asked(each)}

    def where(self, **changed: Any) -> Where:
        """What ``tare.campaign.session.measure`` wants beside the question."""
        from tare.campaign.session import Where  # takes long to load, and the help needs none

        given = {name: getattr(self, name) for name in ("seed", "limits", "folder", "watcher")}
        return Where(**{**given, **changed})

    def folder_or_new(self, study: str, label: str) -> Path:
        return Path(self.folder) if self.folder else default_folder(study, label)


@dataclass(frozen=True)
class OfProgram(Request):
    """One program, or its words, under managers."""

    program: Command
    managers: Sequence[str] = managers_option()
    _: KW_ONLY


@dataclass(frozen=True)
class OfPrograms(Request):
    """Programs, or the words of one, under managers; ``managers`` empty means the installed ones
    that `tare managers` marks."""

    programs: Command | Sequence[Program]
    managers: Sequence[str] = managers_option()
    _: KW_ONLY


@dataclass(frozen=True)
class AgainstBaseline(OfPrograms):
    """Managers of which one, ``baseline``, is what the others are held against."""

    _: KW_ONLY
    baseline: str = baseline_option()


@dataclass(frozen=True)
class OfTrace(Request):
    """The allocations of a heap trace, done again."""

    trace: Path | str
    managers: Sequence[str] = managers_option()
    _: KW_ONLY


@dataclass(frozen=True)
class OfTraces(Request):
    """Heap traces that are analysed; with ``scheduler``, the address of a Dask cluster, its workers
    do it."""

    traces: Sequence[Path | str]
    _: KW_ONLY
    scheduler: str = scheduler_option(
        "Analyse the traces on the workers of the Dask cluster with this scheduler, as "
        "tcp://HOST:8786, which must see them at the same paths."
    )


def _is_asked(declared: Field[Any]) -> bool:
    return bool(declared.metadata.get("asked"))


def own_fields(request: type[Asking]) -> Mapping[str, Field[Any]]:
    """Those with options, by name."""
    found = [each for each in fields(request) if "decorated" in each.metadata]
    return {
        each.name: each for each in sorted(found, key=lambda each: bool(each.metadata.get("last")))
    }


def subject_of(request: type[Asking]) -> Field[Any]:
    """What the request is about: program, programs, trace, traces or suite."""
    (subject,) = (each for each in fields(request) if each.name in _SUBJECTS)
    return subject


def answers(
    request: Callable[_Parameters, _Asked],
) -> Callable[[Callable[[_Asked], _Answer]], Callable[_Parameters, _Answer]]:
    """Makes of a function of a request one that takes the request's fields as its parameters."""

    def decorate(answer: Callable[[_Asked], _Answer]) -> Callable[_Parameters, _Answer]:
        @functools.wraps(answer)
        def function(*given: _Parameters.args, **named: _Parameters.kwargs) -> _Answer:
            return answer(request(*given, **named))

        function.__signature__ = inspect.signature(request)  # type: ignore[attr-defined]
        return function

    return decorate
