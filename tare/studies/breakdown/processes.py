"""The files that the instrument leaves of processes, charged by their runtimes.

observers/instrument/reports/code_file.h documents them.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tare.base.libraries import np
from tare.observers.instrument import Operation, read_process_files
from tare.records.components import MALLOC, Certainty
from tare.studies.breakdown.charge import Charge
from tare.studies.breakdown.descriptor import Descriptor, shipped
from tare.studies.breakdown.found import Calls, Found
from tare.studies.breakdown.image import Image, read_image
from tare.studies.breakdown.memory import Judged, Memory
from tare.studies.breakdown.perf_map import Pieces
from tare.studies.breakdown.runtime_of import find_descriptor
from tare.studies.breakdown.tables import ProcessTables, read_columns

FORMAT, FORMAT_VERSION = "tare-code", 2
_PROOF = "proof"
_CODE = ("stretch", "object", "address", "length", "low", "high")
_EXECUTIONS = ("stretch", "context", "count")


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
        tables = ProcessTables(
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


def _add_process(
    tables: ProcessTables, images: dict[str, Image | None], given: Descriptor | None, found: Found
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
    charge = Charge(tables, descriptor, found)
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
        image = read_image(images, one["file"])
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
