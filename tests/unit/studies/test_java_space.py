"""The tables of the space study on traced Java programs, of results that are made up."""

from __future__ import annotations

import json
from pathlib import Path

from bench.java_space import least_heaps, least_heaps_table, times, times_table

MARK_SWEEP = "marksweep(mimalloc, every=64KiB)"


def write_results(folder: Path, name: str, most_alive: int, heaps: dict[str, int | None]) -> None:
    (folder / f"{name}-minheap").mkdir()
    run = {"schedule": {"peak_bytes": most_alive}}
    (folder / f"{name}-minheap" / "run.json").write_text(json.dumps(run))
    rows = [
        {"manager": manager, "metric": metric, "status": "ok" if heap else "failed", "value": heap}
        for manager, heap in heaps.items()
        for metric in ("min_heap_low_bytes", "min_heap_high_bytes")
    ]
    (folder / f"{name}-minheap.json").write_text(json.dumps({"measurements": rows}))


def test_least_heaps_stand_beside_the_published_ones(tmp_path: Path) -> None:
    mib = 1 << 20
    write_results(
        tmp_path, "xalan", 4 * mib, {MARK_SWEEP: 5 * mib, "semispace": 10 * mib, "immix": None}
    )
    write_results(tmp_path, "h2", 2 * mib, {MARK_SWEEP: 2 * mib, "semispace": 2 * mib})
    heading, _, h2, xalan, means = least_heaps_table(least_heaps(tmp_path)).splitlines()
    collectors = [cell.strip() for cell in heading.split("|")[4:-1]]
    assert collectors[:3] == ["marksweep(mimalloc, every=128KiB)", "semispace", "gencopy"]
    # Published for xalan: 18 MB and 11 MB.
    assert xalan == "| xalan | 4.00 MiB | 1.25 | – | 2.00 (1.64) | – | – | – |"
    assert h2 == "| h2 | 2.00 MiB | 1.00 | – | 1.00 | – | – | – |"
    assert means == "| geometric mean |  |  | – | 1.41 (1.64) | – | – | – |"


def test_times_are_ratios_to_glibc(tmp_path: Path) -> None:
    summary = [
        {"manager": "immix(heap=2004KiB)", "metric": "replay_seconds", "ratio": 1.5},
        {"manager": "immix(heap=2004KiB)", "metric": "mutator_seconds", "ratio": 1.1},
        {"manager": "mimalloc", "metric": "replay_seconds", "ratio": None},
    ]
    (tmp_path / "zxing-tradeoff").mkdir()
    run = {"schedule": {"peak_bytes": 1 << 20}}
    (tmp_path / "zxing-tradeoff" / "run.json").write_text(json.dumps(run))
    (tmp_path / "zxing-tradeoff.json").write_text(json.dumps({"summary": summary}))
    assert times_table(times(tmp_path)).splitlines() == [
        "| program | immix 2x |",
        "| --- | --- |",
        "| zxing | 1.50 |",
    ]
