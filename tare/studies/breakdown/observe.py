"""One run whose instructions are charged to the components of storage management.

The instrument leaves three files per process, documented in
observers/instrument/reports/code_file.h: the code that was executed, how often each stretch of it
was, in which phases, and what the process had loaded.
"""

from __future__ import annotations

import functools
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tare.base.errors import TareError, UsageError
from tare.base.libraries import NDArray, np
from tare.memory_managers.manager import OWN, Manager
from tare.observers import instrument, runner
from tare.observers.event_files import Events
from tare.observers.instrument import Instrument, Operation, read_process_files
from tare.observers.memory_model import MemoryModel
from tare.observers.protocol import Observe, Observed
from tare.programs.elf import interpreter_of
from tare.programs.java_command import with_options
from tare.programs.program import Program, find_executable
from tare.records.components import (
    COMPONENTS,
    COUNTING,
    MALLOC,
    OTHER,
    Certainty,
    cycles_metric,
    metric,
)
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome
from tare.studies.breakdown import allocation, frame_tables, inlining, perf_map
from tare.studies.breakdown.allocation import Site
from tare.studies.breakdown.classifier import Classifier
from tare.studies.breakdown.code import Instruction, decode, updates_object
from tare.studies.breakdown.descriptor import Descriptor, shipped
from tare.studies.breakdown.image import Image
from tare.studies.breakdown.inlining import Place
from tare.studies.breakdown.memory import Judged, Memory, simulator_text
from tare.studies.breakdown.patterns import Mark
from tare.studies.breakdown.perf_map import Pieces
from tare.studies.breakdown.tables import read_columns

FORMAT, FORMAT_VERSION = "tare-code", 2
QUICKEST = 0.1
"""Of the calls of an operation, the share by which it is judged how quick one can be."""
_PROOF = "proof"
_CODE = ("stretch", "object", "address", "length", "low", "high")
_EXECUTIONS = ("stretch", "context", "count")
_MOST_OBJECTS_SHOWN = 8
_NO_FILE = "linkage tables, and code of no file"
_WORD_MASK = (1 << 64) - 1


def find_descriptor(image: Image) -> Descriptor:
    """Of the runtime in an executable; that of malloc where it has none that is known."""
    known = shipped()
    for descriptor in known.values():
        if descriptor.recognise and descriptor.recognises(image):
            return descriptor
    return known[MALLOC]


def chosen_descriptors(program: Program, runtime: str) -> tuple[Descriptor, ...]:
    """What to look for: the runtime of that name; without a name that of the program's executable,
    or all, for what a script may start."""
    return _choose(program, _image_of(program), runtime)


def _choose(program: Program, image: Image | None, runtime: str) -> tuple[Descriptor, ...]:
    known = shipped()
    if runtime:
        if runtime not in known:
            raise UsageError(
                f"there is no descriptor of a runtime {runtime!r}", f"known: {', '.join(known)}"
            )
        if image is not None:
            known[runtime].name_functions(image)
        return (known[runtime],)
    launched = tuple(one for one in known.values() if _launches(program, one))
    if launched:
        return launched
    found = find_descriptor(image) if image is not None else known[MALLOC]
    # Interpreters, and programs in C++ and Rust, start others.
    return (found,) if found.recognise and not found.inlined else tuple(known.values())


def _launches(program: Program, descriptor: Descriptor) -> bool:
    return Path(program.argv[0]).name in descriptor.launchers


def _telling_of_code(program: Program, descriptors: Sequence[Descriptor]) -> Program:
    """``program`` with the options by which JVMs tell of the code that they make: where it is one,
    or a script, which may start one."""
    executable = find_executable(program)
    is_script = interpreter_of(executable) != executable
    asked = {
        descriptor.made_code.java_options: None
        for descriptor in descriptors
        if descriptor.made_code is not None and (is_script or _launches(program, descriptor))
    }
    for options in asked:
        program = with_options(program, options)
    return program


def _image_of(program: Program) -> Image | None:
    """Of the executable that the kernel maps. MissingError where the instrument lacks what it needs
    for one of 32 bits."""
    try:
        image = Image(interpreter_of(find_executable(program)).resolve())
    except TareError:
        return None
    instrument.launcher(image.bits)
    return image


def default_manager(programs: Sequence[Program]) -> str:
    """What serves malloc where no manager is named: no preloaded object reaches 32-bit programs."""
    images = [_image_of(program) for program in programs]
    return OWN if any(image is not None and image.bits == 32 for image in images) else "glibc"


def refuse_narrow(programs: Sequence[Program]) -> None:
    """UsageError where a program has 32 bits: of these no memory system is simulated."""
    for program in programs:
        image = _image_of(program)
        if image is not None and image.bits == 32:
            raise UsageError(
                f"{program.argv[0]} has 32 bits: memory systems are simulated for 64 bits only",
                "leave --memory and --model out",
            )


def described(programs: Sequence[Program], runtime: str) -> list[str]:
    """The names of the descriptors that programs are observed with. UsageError for a ``runtime``
    that has none."""
    names = (d.name for one in programs for d in chosen_descriptors(one, runtime))
    return sorted(set(names))


@dataclass(frozen=True)
class How:
    """``runtime`` names the descriptor to go by; "" lets that be found out."""

    runtime: str
    models: tuple[MemoryModel, ...]


def observer(runtime: str = "", models: tuple[MemoryModel, ...] = ()) -> Observe:
    """What the executor starts for a run."""
    return functools.partial(run_once, how=How(runtime, models))


def run_once(
    program: Program,
    manager: Manager,
    limits: Limits,
    workspace: Path,
    keep_output: Path | None = None,
    how: How | None = None,
) -> Outcome:
    """Run ``program`` under ``manager`` and charge its instructions; see ``runner.run_once``.

    ``values`` of a good outcome have a metric for each component, which sum to ``instructions``,
    and ``integer_tag_high_instructions``. ``details`` is what ``Found.details`` says, with
    ``wall_seconds``, ``processes`` and ``uncounted_processes``.

    With models the memory system is simulated in the same run: ``values`` also have
    ``stall_cycles``, ``simulated_cycles`` and the cycles of each component, which sum to these, in
    the first model; ``memory`` in ``details`` is what ``Memory.details`` says of all.
    """
    runtime, models = (how.runtime, how.models) if how else ("", ())
    image = _image_of(program)
    descriptors = _choose(program, image, runtime)
    given = descriptors[0] if runtime else None
    started = _telling_of_code(program, descriptors)
    text = simulator_text(models, descriptors) if models else ""
    workspace.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="code-", dir=workspace) as folder:
        code = Path(folder).resolve()
        counter = _Counter(_events(descriptors, image), given, code, models, text)
        try:
            return runner.run_once(started, manager, limits, workspace, keep_output, counter)
        finally:
            counter.take_made_code()


def count_pages(*observed: *Observed) -> Outcome:
    """Run a program by itself, for what the kernel does: see ``runner.run_once``.

    ``values`` of a good outcome are page faults; ``details`` the ``user_seconds`` and
    ``system_seconds``, of this one run.
    """
    outcome = runner.run_once(*observed)
    if outcome.status is not Status.OK:
        return outcome
    return replace(
        outcome,
        values={name: outcome.values[name] for name in ("minor_faults", "major_faults")},
        details={name: outcome.values[name] for name in ("user_seconds", "system_seconds")},
    )


class _Counter(Instrument):
    """``code``: where the tool writes what was executed."""

    def __init__(
        self,
        events: Events,
        given: Descriptor | None,
        code: Path,
        models: tuple[MemoryModel, ...],
        simulator_text: str,
    ) -> None:
        super().__init__(events=events)
        self._given = given
        self._code = code
        self._models = models
        self._simulator_text = simulator_text
        self._since = time.time()

    def prefix(self, folder: Path) -> Sequence[str]:
        asked = [*super().prefix(folder), f"--code-folder={self._code}"]
        if self._models:
            memsys, description = folder / "memsys", folder / "models"
            memsys.mkdir()
            description.write_text(self._simulator_text)
            asked += [f"--memsys={description.resolve()}", f"--memsys-folder={memsys.resolve()}"]
        return asked

    def complete(self, folder: Path, pids: Collection[int], outcome: Outcome) -> Outcome:
        counted = super().complete(folder, pids, outcome)
        if counted.status is not Status.OK:
            return counted
        memory = Memory(folder / "memsys", self._models) if self._models else None
        found = read_folder(self._code, self._given, self.take_made_code(), memory)
        return add_up(found, counted)

    def take_made_code(self) -> dict[int, Pieces]:
        """What processes that have ended told of the code that they made; their files are removed,
        also those of runs that failed."""
        pids = {int(path.name.partition(".")[0]) for path in self._code.glob("*.json")}
        return {pid: perf_map.take(pid, self._since) for pid in pids}


def _events(descriptors: Sequence[Descriptor], image: Image | None) -> Events:
    named = (
        replace(event, name=f"{descriptor.family}:{event.name}")
        for descriptor in descriptors
        for event in descriptor.events(image)
    )
    return tuple(dict.fromkeys(named))


@dataclass(frozen=True)
class Calls:
    """Of one operation of malloc's family. ``quick``: the instructions of its calls, but of none
    more than the quickest tenth of those that served an object take; ``slow``: all others."""

    calls: int = 0
    quick: int = 0
    slow: int = 0

    @staticmethod
    def of(operation: Operation, instructions: int) -> Calls:
        """``instructions`` are those of all calls, as they were counted one by one."""
        quickest = _quickest(operation)
        quick = sum(calls * min(low, quickest) for low, calls in operation["histogram"])
        quick = min(quick, instructions)
        return Calls(operation["calls"], quick, instructions - quick)

    def __add__(self, other: Calls) -> Calls:
        return Calls(self.calls + other.calls, self.quick + other.quick, self.slow + other.slow)


def _quickest(operation: Operation) -> int:
    """What the quickest tenth of the calls that served an object do not exceed. free(NULL), which
    serves none, is quicker than any of them."""
    without_object = operation["no_object"]
    wanted = without_object + (operation["calls"] - without_object) * QUICKEST
    seen = 0
    for low, calls in operation["histogram"]:
        seen += calls
        if seen >= wanted:
            return int(low)
    return 0


@dataclass
class Found:
    """What all processes of a run did. Numbers are of instructions.

    ``components`` by name and certainty; ``unexplained`` are those in code that no rule is about,
    by object file; ``runtimes`` the instructions of processes by the runtime in them; ``calls`` by
    operation, where quick and slow ones are told apart; ``allocated_bytes`` what was taken in line;
    ``updates`` how often counts of references were written, by component and whether atomically.
    """

    components: Counter[tuple[str, Certainty]] = field(default_factory=Counter)
    own: int = 0
    unexplained: Counter[str] = field(default_factory=Counter)
    runtimes: Counter[str] = field(default_factory=Counter)
    calls: dict[str, Calls] = field(default_factory=dict)
    updates: Counter[tuple[str, bool]] = field(default_factory=Counter)
    sites: int = 0
    tiled_sites: int = 0
    checked_sites: int = 0
    agreeing_sites: int = 0
    allocated_bytes: int = 0
    memory: Memory | None = None

    @property
    def instructions(self) -> int:
        return self.components.total() + self.own + self.unexplained.total()

    def of(self, component: str, *certainties: Certainty) -> int:
        return sum(self.components[component, certainty] for certainty in certainties)

    def sure(self) -> dict[str, int]:
        """By component, its low bound; ``other`` has the rest."""
        sure = {name: self.of(name, Certainty.SURE) for name in COMPONENTS if name != OTHER}
        return {**sure, OTHER: self.instructions - sum(sure.values())}

    def values(self) -> dict[str, float]:
        return {
            **{metric(name): instructions for name, instructions in self.sure().items()},
            "unexplained_instructions": self.unexplained.total(),
            "integer_tag_high_instructions": self.of("integer_tag", *Certainty),
        }

    def details(self) -> dict[str, Any]:
        """``components``: by name, instructions that are ``sure``, ``ambiguous`` and ``folded``;
        ``own``: those of the language's code that are no storage management; ``unexplained``: by
        object file; ``runtimes``, and the ``titles`` of those but malloc; ``calls``: of malloc's
        operations, with their ``quick`` and ``slow`` instructions; ``updates``: of counts of
        references, ``all`` and the ``atomic`` ones; ``sites``: places that
        allocate, how many of them have headers that tile what they take, how many the runtime's own
        tables tell of, and how many agree."""
        return {
            "components": {
                name: {str(certainty): self.of(name, certainty) for certainty in Certainty}
                for name in COMPONENTS
                if name != OTHER
            },
            "own": self.own,
            "unexplained": dict(self.unexplained.most_common(_MOST_OBJECTS_SHOWN)),
            "runtimes": dict(self.runtimes),
            "titles": [shipped()[name].title for name in self.runtimes if name != MALLOC],
            "calls": {name: asdict(calls) for name, calls in self.calls.items()},
            "updates": {
                name: {"all": plain + atomic, "atomic": atomic}
                for name in COUNTING
                if (plain := self.updates[name, False]) + (atomic := self.updates[name, True])
            },
            "sites": {
                "all": self.sites,
                "tiled": self.tiled_sites,
                "checked": self.checked_sites,
                "agreeing": self.agreeing_sites,
            },
        }


def add_up(found: Found, counted: Outcome) -> Outcome:
    """``counted``, the outcome of a count, with the components as its values."""
    instructions = int(counted.values["instructions"])
    if found.instructions != instructions:
        reason = (
            f"the components sum to {found.instructions:,} of {instructions:,} instructions: "
            "a process was killed while it wrote its counts, or Tare has a fault"
        )
        return replace(counted, status=Status.FAILED, reason=reason, values={}, details={})
    kept = ("wall_seconds", "processes", "uncounted_processes")
    values, details = found.values(), found.details()
    if found.memory is not None:
        details["memory"] = found.memory.details(found.sure(), found.allocated_bytes)
        values |= _cycles(details["memory"][0])
    return replace(
        counted,
        values={"instructions": instructions, **values, "processes": counted.values["processes"]},
        details={**{name: counted.details[name] for name in kept}, **details},
    )


def _cycles(model: Mapping[str, Any]) -> dict[str, float]:
    stalls = {name: sum(one["stalls"].values()) for name, one in model["components"].items()}
    cycles = {name: one["cycles"] + stalls[name] for name, one in model["components"].items()}
    return {
        "simulated_cycles": sum(cycles.values()),
        "stall_cycles": sum(stalls.values()),
        **{cycles_metric(name): spent for name, spent in cycles.items()},
    }


# ---- the files of the instrument ----


@dataclass(frozen=True)
class _Code:
    """The tables of one process, as columns; ``made`` is what it told of code of no file."""

    code: Mapping[str, NDArray[np.uint64]]
    executions: Mapping[str, NDArray[np.uint64]]
    objects: Sequence[Mapping[str, Any]]
    contexts: Sequence[Mapping[str, Any]]
    operations: Mapping[str, Operation]
    made: Pieces


def read_folder(
    folder: Path,
    given: Descriptor | None = None,
    made: Mapping[int, Pieces] | None = None,
    memory: Memory | None = None,
) -> Found:
    """What the processes of a run did; each by the runtime in its executable, or as ``given``.
    ``made``: by process, the code that it told of. ``memory`` is filled with what they met."""
    nothing = Pieces(())
    found = Found(memory=memory)
    images: dict[str, Image | None] = {}
    for path, described in read_process_files(folder, FORMAT, FORMAT_VERSION):
        tables = _Code(
            read_columns(path.with_suffix(".code"), "code", _CODE),
            read_columns(path.with_suffix(".executions"), "executions", _EXECUTIONS),
            described["objects"],
            described["contexts"],
            described["operations"],
            (made or {}).get(described["pid"], nothing),
        )
        judged = _add_process(tables, images, given, found)
        if memory is not None:
            memory.add_process(path.name, judged)
    return found


def _image(images: dict[str, Image | None], file: str) -> Image | None:
    if file not in images:
        try:
            images[file] = Image(Path(file)) if file else None
        except TareError:
            images[file] = None
    return images[file]


def _add_process(
    tables: _Code, images: dict[str, Image | None], given: Descriptor | None, found: Found
) -> Judged:
    descriptor, language = _runtime_of(tables.objects, images, given)
    code, executions = tables.code, tables.executions
    stretches = 1 + int(max(code["stretch"].max(initial=0), executions["stretch"].max(initial=0)))
    lengths = np.bincount(code["stretch"].astype(np.int64), minlength=stretches)
    lengths[0] = 1  # code past the tracking limit: counted by instructions
    plain = np.zeros(stretches, np.int64)
    before = found.instructions
    in_operations: Counter[str] = Counter()
    for number, context in enumerate(tables.contexts):
        chosen = executions["context"] == number
        which = executions["stretch"][chosen].astype(np.int64)
        counts = executions["count"][chosen].astype(np.int64)
        component, title = _judge_context(context, descriptor)
        operation = context["operation"]
        if operation == _PROOF:
            continue
        instructions = int((counts * lengths[which]).sum())
        if title:
            found.unexplained[title] += instructions
            continue
        if component is None:
            plain[which] += counts
            continue
        found.components[component, Certainty.SURE] += instructions
        in_operations[operation] += instructions
    _split_calls(tables.operations, in_operations, descriptor, found)
    found.unexplained["code past the tracking limit"] += int(plain[0])
    charge = _Charge(tables, descriptor, found)
    charge.add_plain(plain, language, images)
    found.unexplained = +found.unexplained
    found.runtimes[descriptor.name] += found.instructions - before
    return Judged(
        descriptor, functools.partial(_component_of, descriptor=descriptor), charge.charged
    )


def _split_calls(
    operations: Mapping[str, Operation],
    instructions: Mapping[str, int],
    descriptor: Descriptor,
    found: Found,
) -> None:
    """Charge what calls take beyond the quickest to a component of its own."""
    for name, component in descriptor.slow.items():
        if name not in operations:
            continue
        calls = Calls.of(operations[name], instructions[name])
        found.calls[name] = found.calls.get(name, Calls()) + calls
        found.components[descriptor.operations[name], Certainty.SURE] -= calls.slow
        found.components[component, Certainty.SURE] += calls.slow


def _component_of(context: Mapping[str, Any], descriptor: Descriptor) -> str | None:
    return _judge_context(context, descriptor)[0]


def _judge_context(context: Mapping[str, Any], descriptor: Descriptor) -> tuple[str | None, str]:
    """The component of all that is executed in a context, if it has one; and under which title it
    is told of, if no rule is about it."""
    prefix = f"{descriptor.family}:"
    phases = [name.removeprefix(prefix) for name in context["phases"] if name.startswith(prefix)]
    of_phases = descriptor.component_of_phases(phases)
    component = of_phases or descriptor.operations.get(context["operation"])
    return component, descriptor.title_of_phases(phases)


def _runtime_of(
    objects: Sequence[Mapping[str, Any]],
    images: dict[str, Image | None],
    given: Descriptor | None,
) -> tuple[Descriptor, dict[int, Image]]:
    """The runtime of a process, and the objects with code of its language, with the executable that
    tells of it. Object 0 stands for all code that lies in no file."""
    for number, one in enumerate(objects):
        image = _image(images, one["file"])
        if image is None:
            continue
        if given is not None and given.recognises(image):
            return given, _language(given, number, image)
        descriptor = find_descriptor(image)
        if given is None and descriptor.recognise:
            return descriptor, _language(descriptor, number, image)
    return given or shipped()[MALLOC], {}


def _language(descriptor: Descriptor, number: int, image: Image) -> dict[int, Image]:
    if descriptor.code.anonymous:
        return {number: image, 0: image}
    return {number: image} if descriptor.code.has_ranges else {}


def _mapped(
    objects: Sequence[Mapping[str, Any]], images: dict[str, Image | None]
) -> list[tuple[int, int]]:
    """Where object files lie, with their linkage tables, which the instrument knows no file of."""
    return sorted(
        (start + one["bias"], end + one["bias"])
        for one in objects
        if (image := _image(images, one["file"])) is not None
        for start, end in image.segments()
    )


@dataclass(frozen=True)
class _Charge:
    """Adds to ``found`` the instructions of a process outside all phases and operations;
    ``charged`` is as in ``Judged``."""

    tables: _Code
    descriptor: Descriptor
    found: Found
    charged: dict[int, str] = field(default_factory=dict)

    def add_plain(
        self,
        plain: NDArray[np.int64],
        language: Mapping[int, Image],
        images: dict[str, Image | None],
    ) -> None:
        code = self.tables.code
        counts = plain[code["stretch"].astype(np.int64)]
        objects = code["object"].astype(np.int64)
        for number, one in enumerate(self.tables.objects):
            mine = (objects == number) & (counts > 0)
            rows = np.flatnonzero(mine)
            if number not in language:
                rows = self._add_inlined(rows, counts, one)
            if not len(rows):
                continue
            if not self.descriptor.recognise:
                self.found.own += int(counts[rows].sum())
            elif number in language:
                mapped = _mapped(self.tables.objects, images) if number == 0 else []
                self._add_language(rows, counts, language[number], mapped)
            elif not one["file"] and self.descriptor.made_code is not None:
                self._add_made_code(rows, counts)
            else:
                self.found.unexplained[Path(one["file"]).name or _NO_FILE] += int(
                    counts[rows].sum()
                )

    def _places(self, rows: NDArray[np.int64], one: Mapping[str, Any]) -> dict[int, Place]:
        """By address in the process, where instructions of an object belong; nothing where it does
        not matter."""
        if not self.descriptor.inlined or not one["file"]:
            return {}
        addresses = np.unique(self.tables.code["address"][rows])
        in_file = addresses - np.uint64(int(one["bias"]) & _WORD_MASK)
        places = inlining.places(one["file"], in_file.tolist())
        return dict(zip(addresses.tolist(), places, strict=True))

    def _add_inlined(
        self, rows: NDArray[np.int64], counts: NDArray[np.int64], one: Mapping[str, Any]
    ) -> NDArray[np.int64]:
        """Those in functions that the descriptor names, and in all that debug information
        describes; returns the others."""
        code, places = self.tables.code, self._places(rows, one)
        left = []
        for row in rows.tolist() if places else ():
            address, count = int(code["address"][row]), int(counts[row])
            component = self.descriptor.component_of_functions(places[address].functions)
            if component is not None and component != OTHER:
                length, low, high = (int(code[name][row]) for name in ("length", "low", "high"))
                instruction = _decoded((address, length, low, high), self.descriptor.bits)
                self._charge(instruction, Mark(component), count)
                self.charged[address] = component
            elif places[address].known:
                self.found.own += count
            else:
                left.append(row)
        return np.array(left, np.int64) if places else rows

    def _charge(self, one: Instruction, mark: Mark, count: int) -> None:
        self.found.components[mark.component, mark.certainty] += count
        sure = mark.certainty is Certainty.SURE
        if sure and mark.component in COUNTING and updates_object(one):
            self.found.updates[mark.component, one.atomic] += count

    def _add_language(
        self,
        rows: NDArray[np.int64],
        counts: NDArray[np.int64],
        image: Image,
        mapped: Sequence[tuple[int, int]],
    ) -> None:
        """Those in an object that has code of the language, and perhaps other code; or in no file,
        and not where files are ``mapped``."""
        code, descriptor, found = self.tables.code, self.descriptor, self.found
        one = self.tables.objects[int(code["object"][rows[0]])]
        bias = int(one["bias"])
        addresses = code["address"][rows] - np.uint64(bias & (1 << 64) - 1)
        for start, end, component in descriptor.routine_ranges(image) if one["file"] else ():
            there = (addresses >= np.uint64(start)) & (addresses < np.uint64(end))
            found.components[component, Certainty.SURE] += int(counts[rows[there]].sum())
            self.charged.update(dict.fromkeys(code["address"][rows[there]].tolist(), component))
            rows, addresses = rows[~there], addresses[~there]
        if one["file"]:
            rest = f"{image.path.name}, not in the language"
            is_language = _is_in(addresses, descriptor.code_ranges(image))
        else:
            rest, is_language = _NO_FILE, ~_is_in(addresses, mapped)
        found.unexplained[rest] += int(counts[rows[~is_language]].sum())
        classifier = Classifier(descriptor, image.names, image.bytes_at)
        rows, addresses = rows[is_language], addresses[is_language]
        inlined = {
            (address - bias) & _WORD_MASK: Mark(told)
            for address, place in self._places(rows, one).items()
            if (told := descriptor.component_of_functions(place.functions)) is not None
        }
        sites = self._add_instructions(rows, addresses, counts, classifier, inlined)
        _check_sites(descriptor, image, sites, found)

    def _add_made_code(self, rows: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Those in code of no file, by what the process told of it."""
        assert self.descriptor.made_code is not None
        made, names = self.tables.made, self.descriptor.made_code.names
        addresses = self.tables.code["address"][rows]
        is_language = np.zeros(len(rows), bool)
        for place, address in enumerate(addresses.tolist()):
            piece = made.at(address)
            if piece is not None and names.fullmatch(piece.name):
                is_language[place] = True
            else:
                name = _NO_FILE if piece is None else piece.name
                self.found.unexplained[name] += int(counts[rows[place]])
        rows, addresses = rows[is_language], addresses[is_language]
        classifier = Classifier(self.descriptor, made.names)
        _note_sites(self._add_instructions(rows, addresses, counts, classifier, {}), self.found)

    def _add_instructions(
        self,
        rows: NDArray[np.int64],
        addresses: NDArray[np.uint64],
        counts: NDArray[np.int64],
        classifier: Classifier,
        inlined: Mapping[int, Mark],
    ) -> list[Site]:
        """Those in code of the language, ``addresses`` in its file; returns the places that
        allocate. What is ``inlined`` is surer than a pattern."""
        code, found, bits = self.tables.code, self.found, self.descriptor.bits
        bias = int(code["address"][rows[0]]) - int(addresses[0]) if len(rows) else 0
        executed: Counter[tuple[int, int, int, int]] = Counter()
        for address, length, low, high, count in zip(
            addresses.tolist(),
            code["length"][rows].tolist(),
            code["low"][rows].tolist(),
            code["high"][rows].tolist(),
            counts[rows].tolist(),
            strict=True,
        ):
            executed[address, length, low, high] += count
        decoded = [_decoded(row, bits) for row in executed]
        classification = classifier.classify(decoded)
        for one, ((address, length, _, _), count) in zip(decoded, executed.items(), strict=True):
            mark = inlined.get(address) or classification.marks.get((address, length))
            if mark is None or mark.component == OTHER:
                found.own += count
            else:
                self._charge(one, mark, count)
                if mark.certainty is Certainty.SURE:
                    self.charged[(address + bias) & _WORD_MASK] = mark.component
        taken = {site.address: site.bytes for site in classification.sites}
        found.allocated_bytes += sum(
            count * taken.get(address, 0) for (address, *_), count in executed.items()
        )
        return classification.sites


def _is_in(addresses: NDArray[np.uint64], ranges: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Of addresses, whether they lie in one of the ranges, which are in order."""
    if not ranges:
        return np.zeros(len(addresses), np.bool_)
    sides = np.array(ranges, np.uint64)
    place = np.searchsorted(sides[:, 0], addresses, side="right") - 1
    found: NDArray[np.bool_] = (place >= 0) & (addresses < sides[np.maximum(place, 0), 1])
    return found


def _decoded(row: tuple[int, int, int, int], bits: int) -> Instruction:
    address, length, low, high = row
    return decode(address, (low | high << 64).to_bytes(16, "little")[:length], bits)


def _note_sites(sites: Sequence[Site], found: Found) -> None:
    found.sites += len(sites)
    found.tiled_sites += sum(site.words is not None for site in sites)


def _check_sites(descriptor: Descriptor, image: Image, sites: Sequence[Site], found: Found) -> None:
    _note_sites(sites, found)
    if descriptor.oracle not in _ORACLES:
        return
    agrees = _ORACLES[descriptor.oracle](image)
    for site in sites:
        if (verdict := agrees(site)) is not None:
            found.checked_sites += 1
            found.agreeing_sites += verdict


def _frame_tables(image: Image) -> Callable[[Site], bool | None]:
    return functools.partial(frame_tables.agrees, image, frame_tables.read_frame_tables(image))


def _heap_checks(image: Image) -> Callable[[Site], bool | None]:
    return functools.partial(allocation.agrees, image.bytes_at)


_ORACLES = {"ocaml-frame-tables": _frame_tables, "ghc-heap-checks": _heap_checks}
"""Whether a place that allocates is what the compiler says elsewhere; None where it does not."""
