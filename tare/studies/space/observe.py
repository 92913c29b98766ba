"""One run under the recorder with snapshots of its resident pages, analysed at once."""

from __future__ import annotations

import functools
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from tare.base.documents import DocumentError, converted
from tare.base.errors import TareError, UsageError
from tare.base.libraries import NDArray, np, pl
from tare.base.native import built_for_musl, native_file
from tare.base.text import plain
from tare.heap_traces import growth, ownership, residence
from tare.heap_traces.frames import place_of, site_text
from tare.heap_traces.residence import Process
from tare.heap_traces.spots import described, is_changeable
from tare.heap_traces.trace import Trace, TraceDamageError, is_trace, open_trace, remove_trace
from tare.memory_managers.manager import Manager, machine_libc
from tare.observers import asked, tracing
from tare.observers.protocol import Observe
from tare.programs.elf import is_musl
from tare.programs.program import Program
from tare.records.actions import Place
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome
from tare.studies.space import history as space_history
from tare.studies.space import sites as space_sites
from tare.studies.space import split as space_split
from tare.studies.space.details import Details, Parts
from tare.studies.space.history import Moment
from tare.studies.space.snapshot import TOUCHED_BYTES, Snapshot, Snapshots, read_snapshots
from tare.studies.space.split import HeapPages, Known, Objects, Split

MOST_PLACES = 50
TRACES_FOLDER = "traces"
SNAPSHOTS_VARIABLE = "TARE_RECORDER_SNAPSHOTS"
SNAPSHOTS_FOLDER = "snapshots"
"""In the folder of a trace."""
_FACTS_FILE = "run.json"
_FACTS_LIMIT = 1 << 20
_SITE_SHIFT = 32
_SITE_MASK = (1 << _SITE_SHIFT) - 1
"""The call sites of several processes in one number."""


_AMOUNT = "a number that is not negative"
Amount = (
    Annotated[int, Meta(ge=0, description=_AMOUNT)]
    | Annotated[float, Meta(ge=0, le=sys.float_info.max, description=_AMOUNT)]
)


class _Facts(Struct, frozen=True):
    manager_files: tuple[str, ...]
    observer_files: tuple[str, ...]
    collects: bool
    kernel_peak_bytes: Amount
    wall_seconds: Amount


def run_once(
    program: Program,
    manager: Manager,
    limits: Limits,
    workspace: Path,
    keep_output: Path | None = None,
    discard_trace: bool = True,
) -> Outcome:
    """Record ``program`` under ``manager`` and divide its resident memory; see ``runner.run_once``.

    The trace lies in the folder ``traces`` beside ``workspace``, unless it is discarded. ``values``
    of a good outcome are the metrics of ``values_of``; ``details`` is what ``analyse`` found, with
    ``trace`` (its path from the results folder, empty when it was discarded), ``wall_seconds``,
    ``analysis_seconds`` and ``kernel_peak_bytes``.
    """
    target = workspace.parent / TRACES_FOLDER / f"{plain(program.name)}.{plain(manager.name)}.tare"
    try:
        with tempfile.TemporaryDirectory(prefix="snapshots-", dir=workspace) as name:
            folder = Path(name).resolve() / SNAPSHOTS_FOLDER
            folder.mkdir()
            outcome = tracing.run_once(
                program,
                _with_snapshots(manager, folder),
                limits,
                workspace,
                keep_output,
                wanted=tracing.Wanted(target, asked.Asked()),
            )
            if outcome.status is not Status.OK:
                return replace(outcome, values={}, details={"trace": ""})
            _write_facts(folder, manager, outcome)
            shutil.move(folder, target / SNAPSHOTS_FOLDER)
        try:
            found = analysed(open_trace(target))
        except TareError as error:
            reason = f"its memory could not be analysed: {error.message}"
            return replace(
                outcome, status=Status.FAILED, reason=reason, values={}, details={"trace": ""}
            )
    finally:
        if discard_trace and is_trace(target):
            remove_trace(target)
    kept = "" if discard_trace else f"{TRACES_FOLDER}/{target.name}"
    return replace(outcome, values=found.values, details={**found.details, "trace": kept})


def analysed(trace: Trace) -> Outcome:
    """As ``run_once``, of a trace that is there already."""
    folder = trace.folder / SNAPSHOTS_FOLDER
    if not folder.is_dir():
        raise UsageError(
            f"{trace.folder} has no snapshots of resident memory",
            "record the program again with tare space --keep-trace",
        )
    begun = time.monotonic()
    facts = _read_facts(folder)
    known = Known(frozenset(facts.manager_files), frozenset(facts.observer_files))
    found = analyse(trace, read_snapshots(folder), known)
    details = {
        **found,
        "trace": str(trace.folder.resolve()),
        "collects": facts.collects,
        "kernel_peak_bytes": facts.kernel_peak_bytes,
        "wall_seconds": facts.wall_seconds,
        "analysis_seconds": time.monotonic() - begun,
    }
    try:
        values = values_of(converted(details, Details))
    except DocumentError as error:
        raise UsageError(f"{trace.folder} contradicts itself: {error}", "record it again") from None
    return Outcome(Status.OK, values=values, details=details)


def _write_facts(folder: Path, manager: Manager, outcome: Outcome) -> None:
    files = known(manager, outcome.server)
    facts = {
        "manager_files": sorted(files.manager),
        "observer_files": sorted(files.observer),
        "collects": manager.collector is not None,
        "kernel_peak_bytes": outcome.values.get("peak_resident_bytes", 0.0),
        "wall_seconds": outcome.values.get("wall_seconds", 0.0),
    }
    (folder / _FACTS_FILE).write_text(json.dumps(facts, indent=2) + "\n")


def _read_facts(folder: Path) -> _Facts:
    """What ``_write_facts`` wrote; the folder can come from anywhere."""
    path = folder / _FACTS_FILE
    try:
        with path.open("rb") as file:
            facts = json.loads(file.read(_FACTS_LIMIT))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    try:
        return converted(facts, _Facts)
    except DocumentError as error:
        raise UsageError(f"{path}: {error}") from None


def observer(discard_trace: bool) -> Observe:
    """``run_once`` with its last argument given, for the executor."""
    return functools.partial(run_once, discard_trace=discard_trace)


def _with_snapshots(manager: Manager, folder: Path) -> Manager:
    variables = {**manager.environment, SNAPSHOTS_VARIABLE: str(folder)}
    return replace(manager, environment=variables)


def known(manager: Manager, server: str) -> Known:
    """What files are the manager's, of a run that ``server`` served."""
    files = [manager.server, manager.layer, Path(server) if server else None]
    own = [native_file(f"lib/libtare-{name}.so") for name in ("recorder", "probe")]
    found = {str(path) for path in _resolved(files)} - {str(machine_libc().resolve())}
    return Known(
        frozenset(path for path in found if not is_musl(path)),
        frozenset(str(path) for path in _resolved(own)),
    )


def _resolved(files: Iterable[Path | None]) -> Iterator[Path]:
    """Each file, and what of it is built for musl."""
    for path in files:
        if path is not None:
            yield from (each.resolve() for each in (path, built_for_musl(path)) if each)


def values_of(found: Details) -> dict[str, float]:
    """The metrics of an analysed run."""
    values = {"resident_bytes": float(found.peak.resident)}
    values |= {f"{name}_bytes": float(found.peak.part(name)) for name in Parts.__struct_fields__}
    if found.largest_live:
        values["heap_expansion_ratio"] = found.peak.heap / found.largest_live
    return values


# ---- the analysis ----


def analyse(trace: Trace, snapshots: Mapping[str, Snapshots], known: Known) -> dict[str, Any]:
    """All that a report on space shows, as JSON could hold it: of the process with the largest
    peak, which is ``process`` among ``processes``.

    UsageError where no process left a snapshot.
    """
    with residence.reading(trace):
        objects = trace.objects()
        rows = residence.processes(objects, trace.processes)
        by_number = {process.number: process for process in rows}
        for each in trace.processes:
            by_number.setdefault(int(each["process"]), residence.without_objects(each))
        numbers = _numbers(trace, snapshots)
        candidates = {n: s for n, s in numbers.items() if s.peak is not None}
        if not candidates:
            raise TraceDamageError("no process in it left a snapshot of its memory")
        main = max(candidates, key=lambda number: _peak_bytes(candidates[number]))
        process, mine = by_number[main], candidates[main]
        inherited = _inherited(trace, objects, by_number, numbers, main)
        places = _Places(trace, main)
        moments = _moments(objects, process, mine, inherited, known, places)
        most = space_history.peak(objects, process)
        grown = growth.growth(objects, process, most.bytes)
        peak = next(each for each in moments if each["is_peak"])
        details = peak.pop("details")
        owned = ownership.owners(trace, process, most.time, details.pop("kept"))
        for site in [*details["sites"], *grown["sites"], *grown["never_freed"]]:
            site.setdefault("process", site["site"] >> _SITE_SHIFT or main)
            site["site"] &= _SITE_MASK
        residence.named_sites([*details["sites"], *grown["sites"], *grown["never_freed"]], trace)
        largest_at = space_history.allocated_by(objects, process, most.time)
    assert mine.peak is not None
    return {
        "peak": peak,
        "timeline": moments,
        **details,
        ownership.DETAIL: owned,
        "largest_live": max(most.bytes, peak["live"]),
        "largest_live_at": largest_at,
        "allocated_bytes": process.bytes,
        "growth": grown,
        "process": main,
        "forked": mine.peak.forked,
        "processes": [
            {
                "process": number,
                "pid": trace.processes[number]["pid"],
                "program": trace.processes[number]["program"],
                "peak_bytes": _peak_bytes(each),
            }
            for number, each in sorted(candidates.items())
        ],
        "snapshot_seconds": max(each.spent_seconds for each in (*mine.timeline, mine.peak)),
        "coarseness": mine.peak.lowest_ratio - 1,
        "complete": bool(trace.meta["complete"]),
        "reason": str(trace.meta.get("reason") or ""),
        "damage": mine.damage[:20],
        "sites_known": "sites" in trace.meta["observed"],
    }


def _numbers(trace: Trace, snapshots: Mapping[str, Snapshots]) -> dict[int, Snapshots]:
    """Snapshots by the number of their process in ``trace``: those of one pid are there in the
    order of their serials."""
    stems: dict[int, list[str]] = {}
    for stem in sorted(snapshots, key=lambda stem: tuple(map(int, stem.split(".")))):
        stems.setdefault(int(stem.partition(".")[0]), []).append(stem)
    numbers = {}
    for process in trace.processes:
        if left := stems.get(process["pid"]):
            numbers[int(process["process"])] = snapshots[left.pop(0)]
    return numbers


def _peak_bytes(snapshots: Snapshots) -> int:
    return snapshots.peak.rss_bytes if snapshots.peak is not None else 0


def _inherited(
    trace: Trace,
    objects: pl.LazyFrame,
    rows: Mapping[int, Process],
    numbers: Mapping[int, Snapshots],
    number: int,
) -> Moment | None:
    """What a fork gave to the process: the objects of its parent at that time."""
    first = numbers[number].peak
    if first is None or not first.forked:
        return None
    parent_pid = trace.processes[number]["parent"]
    parents = [
        candidate
        for candidate, each in numbers.items()
        if candidate in rows
        and candidate < number
        and trace.processes[candidate]["pid"] == parent_pid
        and each.peak is not None
        and each.peak.origin <= first.origin
    ]
    if not parents:
        return None
    parent = parents[-1]
    before = _inherited(trace, objects, rows, numbers, parent)
    theirs = numbers[parent].peak
    assert theirs is not None
    at = first.origin - theirs.origin
    (moment,) = space_history.moments(objects, rows[parent], [at], before, _tag(parent))
    return moment


def _tag(number: int) -> int:
    return number << _SITE_SHIFT


class _Places:
    """Where in the program's code objects were allocated, by their call sites; and which of these
    read alike."""

    def __init__(self, trace: Trace, process: int) -> None:
        self._trace, self._process = trace, process
        self._numbers: dict[Place | None, int] = {None: -1}
        self._of_site: dict[int, int] = {0: -1}
        self._alike: dict[int, int] = {0: 0}
        self._first: dict[tuple[int, str], int] = {}

    def pinned(self, objects: Objects, pages: HeapPages, header: int) -> list[dict[str, Any]]:
        """The places whose objects would take least memory apart from others: ``place``,
        ``objects``, ``requested`` bytes, the free bytes ``on_pages`` and ``between`` that they
        alone keep resident, and the ``overhead`` of the small ones: headers and rounding."""
        groups = self._groups(objects.sites)
        free = space_sites.pinned(objects, pages, groups)
        added = space_sites.overhead(objects, header, groups)
        places = {number: place for place, number in self._numbers.items()}
        none = space_sites.Pinned(0, 0)
        found = [
            (number, free.get(number, none), added.get(number, 0)) for number in {*free, *added}
        ]
        found.sort(key=lambda row: (-max(row[1].on_pages + row[1].between, row[2]), row[0]))
        rows = []
        for number, pinned, overhead in found[:MOST_PLACES]:
            place = places[number]
            if place is None or not is_changeable(place):
                continue
            mine = groups == number
            rows.append(
                {
                    "place": described(place),
                    "objects": int(np.count_nonzero(mine)),
                    "requested": int(objects.sizes[mine].sum()),
                    **vars(pinned),
                    "overhead": overhead,
                }
            )
        return rows

    def alike(self, objects: Objects) -> Objects:
        """With one call site for all of a process that read alike."""
        return replace(objects, sites=self._named(objects.sites, self._alike))

    def _groups(self, sites: NDArray[np.int64]) -> NDArray[np.int64]:
        return self._named(sites, self._of_site)

    def _named(self, sites: NDArray[np.int64], by_site: Mapping[int, int]) -> NDArray[np.int64]:
        """What ``by_site`` has of them, once their stacks are read."""
        unique, inverse = np.unique(sites, return_inverse=True)
        missing = [site for site in unique.tolist() if site not in self._of_site]
        keys = [(site >> _SITE_SHIFT or self._process, site & _SITE_MASK) for site in missing]
        for site, frames in zip(missing, self._trace.stacks(keys), strict=True):
            place = place_of(frames)
            self._of_site[site] = self._numbers.setdefault(place, len(self._numbers))
            key = (site >> _SITE_SHIFT, site_text(frames))
            self._alike[site] = self._first.setdefault(key, site)
        return np.array([by_site[site] for site in unique.tolist()], np.int64)[inverse]


def _moments(
    objects: pl.LazyFrame,
    process: Process,
    mine: Snapshots,
    inherited: Moment | None,
    known: Known,
    places: _Places,
) -> list[dict[str, Any]]:
    """Each snapshot divided, in the order of time; the peak's has ``details``.

    Among those as high as the highest, within what a new peak must exceed the last by and
    ``TOUCHED_BYTES``, the peak is the one with the most live bytes: a program that ends gives back
    objects and not their pages, and touches the code that does so.
    """
    assert mine.peak is not None
    times = {each.time for each in mine.timeline}
    taken = [*mine.timeline, *([] if mine.peak.time in times else [mine.peak])]
    taken.sort(key=lambda each: each.time)
    found: list[dict[str, Any]] = []
    peak: dict[str, Any] = {}
    history = space_history.moments(
        objects, process, [each.time for each in taken], inherited, _tag(process.number)
    )
    for snapshot, moment in zip(taken, history, strict=True):
        whole, pages = space_split.split(snapshot, moment.objects, moment.ever, known)
        described: dict[str, Any] = {**_described(whole, snapshot, moment), "is_peak": False}
        slack = snapshot.rss_bytes * (mine.peak.lowest_ratio - 1) + TOUCHED_BYTES
        as_high = snapshot.rss_bytes + slack >= mine.peak.rss_bytes
        if as_high and described["live"] >= peak.get("live", 0):
            peak.pop("details", None)
            peak["is_peak"] = False
            keeping = space_sites.by_site(places.alike(moment.objects), pages)
            described["is_peak"] = True
            described["details"] = {
                "sites": keeping.head(space_sites.MOST_SITES).to_dicts(),
                "pinned": places.pinned(moment.objects, pages, whole.header),
                "keeping_sites": keeping.height,
                "kept": _kept(keeping, process.number),
                "sizes": space_sites.by_size(moment.objects, pages),
                "occupancy": space_sites.occupancy(pages),
                "page_map": space_sites.page_map(pages),
                "mapped": [{"file": file, "resident": size} for file, size in whole.mapped.items()],
            }
            peak = described
        found.append(described)
    return found


def _kept(keeping: pl.DataFrame, number: int) -> dict[int, int]:
    """By the sites of the process itself, the free bytes that their objects keep resident."""
    rows = keeping.select("site", "kept").iter_rows()
    return {
        site & ((1 << _SITE_SHIFT) - 1): kept
        for site, kept in rows
        if site == 0 or site >> _SITE_SHIFT == number
    }


def _described(whole: Split, snapshot: Snapshot, moment: Moment) -> dict[str, Any]:
    return {
        "allocated": moment.allocated_bytes,
        "nanoseconds": snapshot.time,
        "resident": whole.resident,
        "parts": whole.parts,
        "heap": whole.heap,
        "observer": whole.observer,
        "live": whole.live,
        "live_objects": whole.live_objects,
        "swapped": whole.swapped,
        "huge": snapshot.huge_bytes,
    }
