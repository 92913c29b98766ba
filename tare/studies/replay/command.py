"""`tare replay`: the allocations of a recorded program under any manager."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tare.base.errors import UsageError
from tare.heap_traces.schedule import How
from tare.records.runs import Limits
from tare.studies.replay.cache import replay_cache
from tare.studies.replay.question import replay
from tare.studykit import options
from tare.studykit.answer import Answer, Output
from tare.studykit.progress import TerminalWatcher

EPILOG = """\b
Examples:
  tare trace -o gawk.tare -- gawk -f report.awk words.txt
  tare replay -m glibc -m mimalloc -m 'delay(glibc, size=1MiB)' gawk.tare
  tare replay --regions-by site -m glibc -m 'regions(glibc, as=reap)' gawk.tare
  tare replay --death last-use -m glibc -m jemalloc used.tare
  tare replay --cache -m glibc -m 'marksweep(glibc, every=1MiB)' gawk.tare
"""


@click.command(epilog=EPILOG)
@options.manager_options
@click.option("-n", "--runs", default=10, show_default=True, help="Runs under each manager.")
@click.option("--warmup", default=1, show_default=True, help="Runs of each that are not counted.")
@options.replay_options()
@click.option(
    "--cache",
    is_flag=True,
    help="Simulate the caches under the replay, once for each manager, and measure no time.",
)
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="MODEL",
    help="With --cache: a memory system, as for tare memsys; repeat it. Default: host.",
)
@options.run_options
@options.output_options
@options.trace_argument
def command(
    trace: Path,
    managers: tuple[str, ...],
    baseline: str,
    runs: int,
    warmup: int,
    how: How,
    cache: bool,
    models: tuple[str, ...],
    seed: int | None,
    limits: Limits,
    output: Output,
) -> Answer:
    """The allocations recorded in T.tare, done again under each manager.

    No program runs: the objects of the trace are allocated, touched and freed in their order. So
    all managers do the same work, and the time is theirs. Each replay ends with a digest of what
    then lies in memory, and one that differs from the baseline's counts as wrong output.
    """
    if models and not cache:
        raise UsageError("--model is about the simulation of --cache", "add --cache")
    common: dict[str, Any] = {
        "baseline": baseline,
        "how": how,
        "seed": seed,
        "limits": limits,
        "folder": output.folder,
        "watcher": TerminalWatcher(output.quiet),
    }
    if cache:
        results = replay_cache(trace, managers, models=models, **common)
    else:
        results = replay(trace, managers, runs=runs, warmup=warmup, **common)
    return Answer(results, output)
