"""Studies on a real Dask cluster of several processes, which are killed meanwhile."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import count, cycle, pairwise
from pathlib import Path
from typing import Any

import pytest

import tare
from tare.answers.building import build_report
from tare.base.errors import InterruptedStudy, MissingError, TareError, UsageError
from tare.campaign import canary
from tare.campaign.cluster import Cluster
from tare.campaign.cluster import coordinator as campaign
from tare.campaign.cluster.tasks import each_done
from tare.campaign.watching import Watcher
from tare.programs.program import Program
from tare.records.machine import describe_machine
from tare.records.metrics import Status
from tare.records.results import CANARY, counted, read_records, read_run
from tare.records.runs import Record, Run
from tests.conftest import Completed
from tests.end_to_end.dask_processes import Processes, processes
from tests.end_to_end.test_cli import start, wait_until

pytest.importorskip("distributed", reason="the Python package distributed is not installed")
RUNS = 3
MANAGERS = ("glibc", "glibc(tcache=0)")
PLANNED = Counter(
    [("glibc", number, False) for number in range(2 * RUNS)]
    + [("glibc(tcache=0)", number, False) for number in range(RUNS)]
    + [(name, 0, True) for name in MANAGERS]
)
PROGRAMS = [
    Program(f"program {number}", ("sh", "-c", f"sleep 0.0{number}")) for number in (1, 2, 3)
]


@pytest.fixture(scope="module")
def parent() -> Iterator[Processes]:
    with processes() as started:
        yield started


@pytest.fixture
def dask(parent: Processes) -> Iterator[Processes]:
    yield parent
    for name in list(parent.pids):
        parent.kill(name)


class Told(Watcher):
    """Keeps what is told. ``before`` is called with the number of each run before it starts."""

    def __init__(self, before: Callable[[int, Run], None] = lambda *_: None) -> None:
        self.notes: list[str] = []
        self._before = before
        self._runs = 0

    def note(self, text: str) -> None:
        self.notes.append(text)

    def run(self, run: Run, record: Record | None) -> None:
        if record is None:
            self._runs += 1
            self._before(self._runs, run)


def measured(
    folder: Path,
    scheduler: str,
    programs: Sequence[Program] = PROGRAMS,
    watcher: Watcher | None = None,
    patience: float = 60.0,
) -> list[Record]:
    """All records of a comparison on the cluster."""
    cluster = Cluster(scheduler, patience_seconds=patience)
    tare.compare(programs, MANAGERS, runs=RUNS, folder=folder, watcher=watcher, cluster=cluster)
    return read_records(folder)


def check_whole(records: Sequence[Record], programs: Sequence[Program] = PROGRAMS) -> None:
    """Every planned run of each program is there once, all on machines of one kind."""
    answers = counted(records)
    for program in programs:
        mine = [record for record in answers if record.run.program == program.name]
        done = Counter((r.run.manager, r.run.invocation, r.run.warmup) for r in mine)
        assert done == PLANNED
        assert {record.outcome.status for record in mine} == {Status.OK}
        assert len({record.run.group for record in mine}) == 1
    assert len({record.run.order for record in records}) == len(records)


# With one


def test_programs_are_measured_side_by_side_each_on_one_machine(
    dask: Processes, tmp_path: Path
) -> None:
    address = dask.scheduler()
    for name in ("a", "b"):
        dask.worker(name, address)
    told = Told()
    records = measured(tmp_path / "r", address, watcher=told)
    check_whole(records)
    for program in PROGRAMS:
        assert len({r.run.machine for r in records if r.run.program == program.name}) == 1
    run = read_run(tmp_path / "r")
    assert {r.run.machine for r in records} <= set(run.machines)
    for machine in run.machines.values():
        assert machine.machine.processor == describe_machine()["processor"]
    assert any("their runs disturb each other" in note for note in told.notes)
    outputs = list((tmp_path / "r" / "outputs").iterdir())
    assert len(outputs) == len(PROGRAMS) * len(MANAGERS)
    with pytest.raises(UsageError, match="a different command"):
        tare.compare(PROGRAMS, MANAGERS, runs=RUNS, folder=tmp_path / "r")
    # Without the cluster its results are there to be read.
    report = build_report(tare.load(tmp_path / "r"))
    assert sum(name.startswith("machine ") for name, _ in report.facts) == len(run.machines)
    assert any("shared the machine" in warning for warning in report.warnings)


def test_nothing_is_lost_or_counted_twice_when_workers_are_killed(
    dask: Processes, tmp_path: Path
) -> None:
    address = dask.scheduler()
    for name in ("a", "b", "c"):
        dask.worker(name, address)
    moments = random.Random(7)
    spare = iter("defghijk")

    def kill_now_and_then(number: int, run: Run) -> None:
        if number in (3, 8, 12, 20):
            alive = sorted(name for name in dask.pids if name != "scheduler")
            dask.kill(moments.choice([run.machine[0], moments.choice(alive)]))
            dask.worker(next(spare), address)

    told = Told(kill_now_and_then)
    check_whole(measured(tmp_path / "r", address, watcher=told))
    assert sum("is gone" in note for note in told.notes) >= 1


def test_a_result_that_is_lost_with_its_worker_is_measured_again(
    dask: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = dask.scheduler()
    dask.worker("a", address)
    take = campaign._Campaign._take
    ended = count(1)

    def take_too_late(self: campaign._Campaign, future: Any) -> None:
        if next(ended) == 6:
            dask.kill("a")
            dask.worker("b", address)
        take(self, future)

    monkeypatch.setattr(campaign._Campaign, "_take", take_too_late)
    records = measured(tmp_path / "r", address, PROGRAMS[:1])
    check_whole(records, PROGRAMS[:1])
    # The first event is the look at the worker.
    assert [r.run.machine[0] for r in records] == ["a"] * 4 + ["b"] * (len(records) - 4)


def test_a_program_is_begun_anew_on_another_kind_of_machine(
    dask: Processes, tmp_path: Path
) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core: all workers are alike")
    address = dask.scheduler()
    dask.worker("small", address, one_core=True)

    def change_machines(number: int, run: Run) -> None:
        if number == 5:
            dask.worker("whole", address)
            dask.kill("small")

    told = Told(change_machines)
    records = measured(tmp_path / "r", address, PROGRAMS[:1], told, patience=0.1)
    check_whole(records, PROGRAMS[:1])
    answers = counted(records)
    assert {r.run.machine.partition("@")[0] for r in answers} == {"whole"}
    assert len(records) - len(answers) == 4, "those on the small machine are kept, and set aside"
    assert any("waits for a machine like" in note for note in told.notes)
    results = tare.load(tmp_path / "r")
    assert results.measurements["order"].min() > 4  # type: ignore[operator]


def test_a_program_that_takes_workers_with_it_has_failed(
    dask: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tare.campaign.cluster.coordinator.LOSSES_ALLOWED", 2)
    address = dask.scheduler()
    names = (f"w{number}" for number in range(100))
    dask.worker(next(names), address)
    # The parent of the program is the launcher, whose parent is the worker.
    killer = Program("killer", ("sh", "-c", 'kill -9 $(cut -d" " -f4 /proc/$PPID/stat); sleep 9'))

    class Refill(Told):
        def note(self, text: str) -> None:
            super().note(text)
            if "is gone" in text:
                dask.worker(next(names), address)

    cluster = Cluster(address)
    told = Refill()
    tare.compare([killer], ["glibc"], folder=tmp_path / "r", watcher=told, cluster=cluster)
    records = read_records(tmp_path / "r")
    assert [r.outcome.status for r in records] == [Status.FAILED] * 2
    assert "2 workers in a row were lost" in records[0].outcome.reason
    assert sum("is gone" in note for note in told.notes) == 4


def test_two_studies_at_once_do_not_share_a_worker(dask: Processes, tmp_path: Path) -> None:
    address = dask.scheduler()
    dask.worker("a", address)
    done: list[list[Record]] = []
    studies = [
        threading.Thread(target=lambda name=name: done.append(measured(tmp_path / name, address)))
        for name in ("r", "s")
    ]
    for study in studies:
        study.start()
    for study in studies:
        study.join()
    spans = []
    for records in done:
        check_whole(records)
        for each in records:
            begun = datetime.fromisoformat(each.started).timestamp()
            # Starts are written in milliseconds.
            spans.append((begun + 0.001, begun + each.outcome.values["wall_seconds"]))
    spans.sort()
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


SUITE = """
schema = 1
name = "two"
description = "x"
[[program]]
name = "quick"
description = "x"
command = ["sh", "-c", "echo ${MALLOC_TRIM_THRESHOLD_-none}"]
[[program]]
name = "blocked"
description = "x"
command = ["sh", "-c", "test -e {suite}/open || exec sleep DURATION"]
"""


def running(words: str) -> bool:
    """Whether a process has these words in its command."""
    for place in Path("/proc").iterdir():
        try:
            command = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (OSError, UnicodeDecodeError):
            continue
        if command.strip() == words:
            return True
    return False


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_programs_end_with_the_command_which_can_go_on(
    tare: Callable[..., Completed], dask: Processes, tmp_path: Path, by: int
) -> None:
    duration = f"{1000 + os.getpid() % 1000}.{by}"
    (tmp_path / "two.toml").write_text(SUITE.replace("DURATION", duration))
    address = dask.scheduler()
    # What Dask's nanny sets for a worker must not reach the programs.
    dask.worker("a", address, variables={"MALLOC_TRIM_THRESHOLD_": "65536"})
    arguments = ("suite", "run", "two.toml", "-n", "3", "-m", "glibc", "--no-page", "-o", "r",
                 "--scheduler", address)  # fmt: skip
    command = start(*arguments, cwd=tmp_path)
    wait_until(lambda: running(f"sleep {duration}"), "the program that waits")
    command.send_signal(by)
    command.communicate()
    assert command.returncode == (130 if by == signal.SIGINT else -by)
    wait_until(lambda: not running(f"sleep {duration}"), "the end of the program")
    kept = (tmp_path / "r" / "runs.jsonl").read_text()
    assert kept.count("\n") == 7, "the warm-up and the runs of the first program"
    (tmp_path / "open").touch()
    again = tare(*arguments)
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "r" / "runs.jsonl").read_text().startswith(kept)
    done = Counter(r.run.program for r in read_records(tmp_path / "r"))
    assert done == {"quick": 7, "blocked": 7}
    (output,) = (path for path in (tmp_path / "r" / "outputs").iterdir() if "quick" in path.name)
    assert output.read_text() == "none\n"


def test_machines_that_cannot_take_part_are_named(dask: Processes, tmp_path: Path) -> None:
    address = dask.scheduler()
    with pytest.raises(MissingError, match=f"{address} has no workers") as none:
        measured(tmp_path / "r", address, patience=0.1)
    assert f"dask worker {address}" in none.value.hint
    dask.worker("old", address, version="0.0.1")
    with pytest.raises(MissingError, match=r"old@\S+: it has Tare 0\.0\.1"):
        measured(tmp_path / "r", address)
    dask.worker("new", address)
    told = Told()
    check_whole(measured(tmp_path / "r", address, watcher=told))
    assert any("old@" in note and "cannot take part" in note for note in told.notes)
    dask.kill("new")
    dask.kill("old")
    dask.worker("bare", address, variables={"PATH": "/nowhere"})
    with pytest.raises(MissingError, match=r"bare@\S+: the program 'sh' was not found"):
        measured(tmp_path / "s", address)


def test_a_scheduler_that_is_not_there(
    dask: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tare.campaign.cluster.connection.CONNECT_SECONDS", 1.0)
    with pytest.raises(MissingError, match="no scheduler answers at 127"):
        measured(tmp_path / "r", "127.0.0.1:9")
    with pytest.raises(UsageError, match="is not the address"):
        measured(tmp_path / "r", "carrier-pigeon://loft")
    address = dask.scheduler()
    dask.worker("a", address)
    told = Told(lambda number, _: dask.kill("scheduler") if number == 4 else None)
    with pytest.raises(TareError, match="is gone"):
        measured(tmp_path / "r", address, watcher=told)
    assert len(read_records(tmp_path / "r")) >= 3
    dask.kill("a")
    again = dask.scheduler()
    dask.worker("b", again)
    check_whole(measured(tmp_path / "r", again))


def test_a_scheduler_that_goes_is_told_in_a_word(dask: Processes, tmp_path: Path) -> None:
    """Without what Dask would log, which it does where it was not imported before."""
    duration = f"{2000 + os.getpid() % 1000}"
    (tmp_path / "two.toml").write_text(SUITE.replace("DURATION", duration))
    address = dask.scheduler()
    dask.worker("a", address)
    command = start("suite", "run", "two.toml", "-n", "1", "-m", "glibc", "--no-page", "-o", "r",
                    "--scheduler", address, cwd=tmp_path)  # fmt: skip
    wait_until(lambda: running(f"sleep {duration}"), "the program that waits")
    dask.kill("scheduler")
    _, told = command.communicate()
    assert command.returncode == 4, told
    assert f"the scheduler at {address} is gone" in told
    assert "Traceback" not in told
    assert "distributed" not in told
    wait_until(lambda: not running(f"sleep {duration}"), "the end of the program")


# Tasks


def test_a_task_is_done_again_when_its_worker_goes_with_the_result(
    dask: Processes, tmp_path: Path
) -> None:
    address = dask.scheduler()
    dask.worker("a", address)
    files = {number: tmp_path / str(number) for number in (1, 2, 3)}
    tasks = {number: partial(path.write_text, "x" * number) for number, path in files.items()}
    answers = each_done(tasks, address)
    done = dict([next(answers)])
    wait_until(lambda: all(path.exists() for path in files.values()), "all tasks")
    dask.kill("a")
    dask.worker("b", address)
    done.update(answers)
    assert done == {1: 1, 2: 2, 3: 3}


def test_tasks_without_workers_are_given_up(dask: Processes, tmp_path: Path) -> None:
    address = dask.scheduler()
    tasks = {number: partial(len, "x" * number) for number in (1, 2)}
    with pytest.raises(MissingError, match=f"{address} has no workers"):
        list(each_done(tasks, address, patience_seconds=0.1))
    dask.worker("a", address)
    answers = each_done(tasks, address, patience_seconds=3)
    next(answers)
    dask.kill("a")
    with pytest.raises(TareError, match="all workers are gone"):
        next(answers)


def test_tasks_of_a_scheduler_that_goes(dask: Processes) -> None:
    address = dask.scheduler()
    dask.worker("a", address)
    tasks: dict[int, Callable[[], Any]] = {1: partial(len, "x"), 2: partial(time.sleep, 60)}
    answers = each_done(tasks, address)
    assert next(answers) == (1, 1)
    dask.kill("scheduler")
    with pytest.raises(TareError, match=f"the scheduler at {address} is gone"):
        next(answers)


def test_a_task_that_takes_workers_with_it_is_given_up(dask: Processes) -> None:
    address = dask.scheduler()
    for name in ("a", "b", "c", "d", "e"):
        dask.worker(name, address)
    ((number, answer),) = each_done({1: partial(os.system, "kill -9 $PPID")}, address)
    assert number == 1
    assert isinstance(answer, TareError)
    assert answer.message == "4 workers in a row were lost while they did it"


def test_canaries_are_visited_on_each_worker(
    dask: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = cycle([True, False])
    monkeypatch.setattr(canary.Clock, "due", lambda _self: next(turns))
    address = dask.scheduler()
    dask.worker("a", address)
    tare.compare(
        [Program("p", ("true",))], ["glibc"], runs=1, warmup=0, folder=tmp_path / "r",
        cluster=Cluster(address),
    )  # fmt: skip
    records = read_records(tmp_path / "r")
    visits = [record for record in records if record.run.study == CANARY]
    assert len(records) - len(visits) == 1
    assert len(visits) >= 2 * canary.RUNS_A_VISIT
    assert {record.outcome.status for record in visits} == {Status.OK}
    assert {record.run.machine for record in visits} == set(read_run(tmp_path / "r").machines)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_random_kills_again_and_again(dask: Processes, tmp_path: Path) -> None:
    """Workers are killed at random moments, the client is interrupted; every run is there once."""
    address = dask.scheduler()
    names = iter(f"w{number}" for number in range(10_000))
    for _ in range(3):
        dask.worker(next(names), address)
    programs = [
        Program(f"program {number}", ("sh", "-c", f"sleep 0.{number:02}"))
        for number in range(1, 25)
    ]
    moments = random.Random(11)

    def kill(name: str) -> None:
        if name in dask.pids:
            dask.kill(name)

    def disturb(_number: int, _run: Run) -> None:
        chance = moments.random()
        if chance < 0.15:
            victim = moments.choice(sorted(name for name in dask.pids if name != "scheduler"))
            threading.Timer(moments.uniform(0, 0.2), dask.kill, [victim]).start()
            dask.worker(next(names), address)
        elif chance < 0.17:
            raise KeyboardInterrupt

    interruptions = 0
    while True:
        try:
            records = measured(tmp_path / "r", address, programs, Told(disturb))
            break
        except InterruptedStudy:
            interruptions += 1
    assert interruptions > 0
    check_whole(records, programs)
