"""The space study on traced Java programs: minimum heaps beside those of Sareen (2021), table 3.1,
and what collectors cost in time by the size of their heap.

    python -m bench.java_space FOLDER [NAME…]    traces, searches, replays; prints the tables
    python -m bench.java_space --least-heaps FOLDER [NAME…]    without the replays for time
    python -m bench.java_space --print FOLDER    prints what is there

What is done in the folder is not done again.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tare.base.units import format_bytes, parse_size
from tare.memory_managers.manager import parse_name
from tare.programs.suite import workloads_folder
from tare.studies.minheap.replayed_report import (
    HIGH,
    PUBLISHED_COLLECTORS,
    REFERENCE,
    published_heaps,
)


class Application(NamedTuple):
    """One of the Java workloads, and its name in the table."""

    arguments: str
    published: str = ""


APPLICATIONS: Mapping[str, Application] = {
    "batik": Application("--iterations 1 --size 1", "batik"),
    "biojava": Application("--iterations 1 --size 3", "biojava"),
    "fop": Application("--iterations 1 --size 1", "fop"),
    "graph": Application("--iterations 2 --size 2", "graphchi"),
    "h2": Application("--iterations 1 --size 1"),
    "jdt": Application("--iterations 1 --size 1", "eclipse"),
    "jython": Application("--iterations 1 --size 2", "jython"),
    "lucene-index": Application("--iterations 2 --size 100", "luindex"),
    "lucene-search": Application("--iterations 1 --size 500", "lusearch"),
    "pmd": Application("--iterations 1 --size 1", "pmd"),
    "xalan": Application("--iterations 2 --size 3", "xalan"),
    "zxing": Application("--iterations 2 --size 20", "zxing"),
}
"""Small enough to be traced and searched in a minute or two each."""
DEATHS_EVERY = "256KiB"
"""Bytes allocated between two collections of the traced JVM."""
COLLECTORS = (REFERENCE, *PUBLISHED_COLLECTORS, "genimmix")
TIMED = ("glibc", "mimalloc", "semispace", "immix", "genimmix")
HEAPS = (1.5, 2, 3, 4)
HEAPS_OF_A_PROGRAM = "-minheap"
"""Behind its name: the results folder of the search."""


def main(words: Sequence[str]) -> int:
    """1 where an application has no figures, 2 for a wrong call, 3 without Java or Maven."""
    option = words[0] if words and words[0] in ("--print", "--least-heaps") else ""
    words = words[1:] if option else words
    if not words or (unknown := set(words[1:]) - set(APPLICATIONS)):
        problem = f"no application {', '.join(sorted(unknown))}" if words else "no folder"
        print(f"{problem}; {__doc__}", file=sys.stderr)
        return 2
    folder, names = Path(words[0]), words[1:] or list(APPLICATIONS)
    failed: list[str] = []
    if option != "--print":
        if (jar := _jar(folder)) is None:
            return 3
        failed = _all(folder, names, jar, with_times=not option)
    print(least_heaps_table(least_heaps(folder)))
    if found := times(folder):
        print("", times_table(found), sep="\n")
    if failed:
        print("without figures: " + ", ".join(failed), file=sys.stderr)
    return 1 if failed else 0


def _all(folder: Path, names: Sequence[str], jar: Path, *, with_times: bool) -> list[str]:
    """The applications that failed."""
    failed = []
    begun = time.monotonic()
    for number, name in enumerate(names):
        if not all(_do(step) for step in _steps(folder, name, jar, with_times=with_times)):
            failed.append(name)
        done = number + 1
        minutes = (time.monotonic() - begun) / done * (len(names) - done) / 60
        print(
            f"java space: {name} done, {done} of {len(names)}; about {minutes:.0f} min left",
            file=sys.stderr,
        )
    return failed


def _jar(folder: Path) -> Path | None:
    """The jar of the workloads, or None where it could not be built; the builder said why."""
    jar = folder / "jar" / "tare-workloads.jar"
    if not jar.exists():
        folder.mkdir(parents=True, exist_ok=True)
        project = workloads_folder() / "java"
        script = [sys.executable, str(project / "build.py"), str(project), str(jar.parent)]
        subprocess.run(script, check=False)
    return jar if jar.exists() else None


class _Step(NamedTuple):
    done: Path
    folder: Path
    command: list[str]


def _steps(folder: Path, name: str, jar: Path, *, with_times: bool) -> list[_Step]:
    trace = folder / f"{name}.tare"
    record = f"trace --jvm --pointers --no-sites --reachability {DEATHS_EVERY} --quiet".split()
    program = ["java", "-Xmx1g", "-jar", str(jar), name, *APPLICATIONS[name].arguments.split()]
    steps = [_Step(trace / "meta.json", trace, [*record, "-o", str(trace), "--", *program])]
    studies: list[tuple[str, Sequence[str], list[str]]] = [("minheap", COLLECTORS, [])]
    if with_times:
        studies.append(("tradeoff", TIMED, ["--heaps", ",".join(map(str, HEAPS)), "-n", "5"]))
    for study, managers, more in studies:
        results = folder / f"{name}-{study}"
        done = folder / f"{name}-{study}.json"
        words = [study, "--death", "unreachable", "--quiet", "--no-page", *more]
        words += [word for manager in managers for word in ("-m", manager)]
        steps.append(
            _Step(done, results, [*words, "-o", str(results), "--json", str(done), str(trace)])
        )
    return steps


def _do(step: _Step) -> bool:
    """True when it is done. A heap that is too small for a replay is an answer, and exit code 1."""
    if step.done.exists():
        return True
    if step.command[0] == "trace" and step.folder.exists():
        shutil.rmtree(step.folder)  # of a recording that was cut off
    print(f"java space: tare {' '.join(step.command[:1])} → {step.folder.name}", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "tare", *step.command], check=False)
    return step.done.exists()


def least_heaps(folder: Path) -> dict[str, dict[str, float]]:
    """By application and manager; ``""`` is the most that was alive."""
    found: dict[str, dict[str, float]] = {}
    for name in APPLICATIONS:
        path = folder / f"{name}-minheap.json"
        if not path.exists():
            continue
        rows = _measurements(path)
        heaps = {r["manager"]: r["value"] for r in rows if r["metric"] == HIGH and _is_good(r)}
        found[name] = {"": _most_alive(folder / f"{name}{HEAPS_OF_A_PROGRAM}"), **heaps}
    return found


def _measurements(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(path.read_text())["measurements"]
    return rows


def _is_good(row: Mapping[str, Any]) -> bool:
    return row["status"] == "ok" and row["value"] is not None


def _most_alive(results: Path) -> float:
    return float(json.loads((results / "run.json").read_text())["schedule"]["peak_bytes"])


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def least_heaps_table(found: Mapping[str, Mapping[str, float]]) -> str:
    """In Markdown: ratios to mark-sweep, measured and published."""
    others = COLLECTORS[1:]
    lines = [
        ["program", "most alive", "over live", *(f"{m}" for m in others)],
        ["---"] * (3 + len(others)),
    ]
    ratios: dict[str, list[tuple[float, float | None]]] = {manager: [] for manager in others}
    for name, heaps in found.items():
        base = heaps.get(REFERENCE)
        cells = []
        for manager in others:
            heap = heaps.get(manager)
            if base is None or heap is None:
                cells.append("–")
                continue
            ratio, theirs = heap / base, _published(name, manager)
            ratios[manager].append((ratio, theirs))
            cells.append(f"{ratio:.2f}" + (f" ({theirs:.2f})" if theirs is not None else ""))
        over = f"{base / heaps['']:.2f}" if base is not None else "–"
        lines.append([name, format_bytes(heaps[""]), over, *cells])
    means = []
    for manager in others:
        ours = [ratio for ratio, _ in ratios[manager]]
        published = [theirs for _, theirs in ratios[manager] if theirs is not None]
        mean = f"{geometric_mean(ours):.2f}" if ours else "–"
        means.append(mean + (f" ({geometric_mean(published):.2f})" if published else ""))
    lines.append(["geometric mean", "", "", *means])
    return _markdown(lines)


def _published(name: str, manager: str) -> float | None:
    row = published_heaps().get(APPLICATIONS[name].published)
    if row is None or manager not in PUBLISHED_COLLECTORS:
        return None
    base, heap = row[0], row[1 + PUBLISHED_COLLECTORS.index(manager)]
    return None if base is None or heap is None else heap / base


def times(folder: Path) -> dict[str, dict[str, float]]:
    """By application and manager, a collector with its heap in multiples of the most alive: the
    ratio of replay time to glibc's."""
    found: dict[str, dict[str, float]] = {}
    for name in APPLICATIONS:
        path = folder / f"{name}-tradeoff.json"
        if path.exists():
            most_alive = _most_alive(folder / f"{name}-tradeoff")
            found[name] = {
                _with_multiple(row["manager"], most_alive): row["ratio"]
                for row in json.loads(path.read_text())["summary"]
                if row["metric"] == "replay_seconds" and row["ratio"] is not None
            }
    return found


def _with_multiple(manager: str, most_alive: float) -> str:
    name, options = parse_name(manager)
    if "heap" not in options:
        return manager
    heap = parse_size(options["heap"])
    return f"{name} {min(HEAPS, key=lambda multiple: abs(multiple * most_alive - heap))}x"


def times_table(found: Mapping[str, Mapping[str, float]]) -> str:
    managers = sorted({manager for ratios in found.values() for manager in ratios})
    lines = [["program", *managers], ["---"] * (1 + len(managers))]
    for name, ratios in found.items():
        cells = [f"{ratios[manager]:.2f}" if manager in ratios else "–" for manager in managers]
        lines.append([name, *cells])
    return _markdown(lines)


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
