"""Heap traces of Java programs: held against the JVM's own counts, and against known programs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl
import pytest

import tare as api
from tare.base.errors import MissingError
from tare.heap_traces.invariants import violations
from tare.heap_traces.schedule import How
from tare.heap_traces.trace import Trace, open_trace
from tare.observers import jvm_trace
from tare.observers.asked import Asked
from tare.studies.replay.question import replay
from tests.support.java import event_agent, java_since

PERIOD = 64 << 10
PROGRAMS = Path(__file__).with_name("traced")
PARALLEL_COUNTS = {"Made": 8 * 3000, "Sum": 2 * 4096 - 1, "Boxed": 8000}
PARALLEL_MAKERS = {"Made": "make", "Sum": "sum", "Boxed": "box"}

Compiled = Callable[[str], list[str]]
Recorded = Callable[..., Trace]


@pytest.fixture(scope="session", autouse=True)
def agent() -> None:
    try:
        jvm_trace.require()
    except MissingError as error:
        pytest.skip(f"{error.message}; {error.hint}")
    if shutil.which("javac") is None:
        pytest.skip("javac is not installed (package default-jdk-headless)")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """Compiles one of the ``PROGRAMS``; gives the command that runs it."""

    def make(name: str) -> list[str]:
        folder = tmp_path_factory.mktemp(name)
        subprocess.run(["javac", "-nowarn", "-d", folder, PROGRAMS / f"{name}.java"], check=True)
        return ["java", "-Xmx256m", "-cp", str(folder), name]

    return make


@pytest.fixture(scope="module")
def recorded(compiled: Compiled, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """The trace of a program, which several tests may look at."""
    kept: dict[tuple[str, bool, bool], Trace] = {}

    def record(name: str, *, pointers: bool = False, last_seen: bool = False) -> Trace:
        if (name, pointers, last_seen) in kept:
            return kept[name, pointers, last_seen]
        if pointers:
            event_agent()
        what = Asked(jvm=True, reachability_bytes=PERIOD, pointers=pointers, last_seen=last_seen)
        folder = tmp_path_factory.mktemp(name) / "t.tare"
        trace = api.trace(compiled(name), what=what, folder=folder)
        assert trace.meta["complete"], trace.meta["reason"]
        assert violations(trace) == {}
        kept[name, pointers, last_seen] = trace
        return trace

    return record


def objects_with_types(trace: Trace) -> pl.DataFrame:
    """The objects of a trace with the types that their sites name."""
    sites = trace.sites().select("site", type=pl.col("function")).collect()
    return trace.objects().collect().join(sites, on="site", how="left", maintain_order="left")


def of_type(objects: pl.DataFrame, name: str) -> pl.DataFrame:
    return objects.filter(pl.col("type") == f"new {name}")


def line_of(program: str, text: str) -> int:
    source = (PROGRAMS / f"{program}.java").read_text()
    return source[: source.index(text)].count("\n") + 1


def jdk() -> int:
    told = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    return int(told.partition(' version "')[2].partition(".")[0])


def assert_walk_agrees(trace: Trace) -> None:
    """All that the trace has alive was found in the heap, and hardly anything else. From JDK 21 on
    tags are found by identity hashes, which Object.clone clears after the agent set the tag: such
    objects are in the trace, and found without one."""
    found = trace.meta["jvm"]
    sites = trace.sites().select("site", "caller", "function").collect()
    callers = sites.select(caller="site", by="function")
    clones = sites.join(callers, on="caller").filter(pl.col("by") == "java.lang.Object.clone")
    alive = trace.objects().filter(pl.col("unreachable_bytes").is_null()).collect()
    without_tag = alive["site"].is_in(clones["site"].to_list()).sum() if jdk() >= 21 else 0
    at_end = found["objects_at_end"]
    assert at_end - without_tag <= found["objects_found_at_end"] <= at_end
    assert at_end > 1000
    assert found["missed_objects"] - without_tag < at_end / 100


def test_every_byte_that_the_jvm_counts_is_there(compiled: Compiled, tmp_path: Path) -> None:
    command = compiled("Counted")
    options = ["--jvm", "--reachability", "256KiB", "-o", str(tmp_path / "t.tare")]
    subprocess.run(
        [sys.executable, "-m", "tare", "trace", *options, "--", *command, str(tmp_path / "told")],
        capture_output=True,
        check=True,
    )
    trace = open_trace(tmp_path / "t.tare")
    assert violations(trace) == {}
    objects = objects_with_types(trace)
    (begin,) = of_type(objects, "Counted$Begin").iter_rows(named=True)
    (end,) = of_type(objects, "Counted$End").iter_rows(named=True)
    between = objects.filter(
        (pl.col("id") > begin["id"])
        & (pl.col("id") < end["id"])
        & (pl.col("thread") == begin["thread"])
    )
    # Asking the JVM allocates a little, too.
    told = int((tmp_path / "told").read_text())
    assert told - probe_bytes(trace) <= between["size"].sum() <= told + 8192
    assert of_type(between, "byte[]").height >= 20000
    assert of_type(between, "int[][]").height == 20000
    assert_walk_agrees(trace)


def test_lives_end_with_the_next_collection(recorded: Recorded) -> None:
    trace = recorded("Lives")
    objects = objects_with_types(trace)
    kept, dropped, garbage = (
        of_type(objects, f"Lives${name}") for name in ("Kept", "Dropped", "Garbage")
    )
    assert (kept.height, dropped.height, garbage.height) == (1000, 1000, 1000)
    assert kept["unreachable_bytes"].null_count() == 1000
    fillers = of_type(objects, "Lives$Filler")["birth_bytes"]
    drop, most = fillers[20000], 2 * PERIOD
    assert dropped["unreachable_bytes"].is_between(drop - 1000, drop + most).all()
    waits = garbage["unreachable_bytes"] - garbage["birth_bytes"]
    assert (waits <= most).all()
    assert dropped["unreachable_bytes"].n_unique() == 1
    assert_walk_agrees(trace)


def test_an_overwritten_pointer_dates_a_death(recorded: Recorded) -> None:
    trace = recorded("Lives", pointers=True, last_seen=True)
    objects = objects_with_types(trace)
    # Each is in a static field until the next one is.
    garbage = of_type(objects, "Lives$Garbage")
    held = trace.pointers().filter(pl.col("target").is_in(garbage["id"].implode())).collect()
    assert held["target"].to_list() == garbage["id"].to_list()
    assert held["source"].null_count() == held.height
    stores = held["instructions"].to_list()
    deaths = garbage["unreachable_instructions"].to_list()
    assert deaths[:-1] == [store + 1 for store in stores[1:]]
    # All of a list at once, when its first was let go.
    dropped = of_type(objects, "Lives$Dropped")
    drop = of_type(objects, "Lives$Filler")["birth_bytes"][20000]
    assert dropped["unreachable_bytes"].n_unique() == 1
    assert 0 <= drop - dropped["unreachable_bytes"][0] <= 64


def test_a_site_has_its_stack(recorded: Recorded) -> None:
    trace = recorded("Lives")
    row = of_type(objects_with_types(trace), "Lives$Filler").row(0, named=True)
    frames = trace.frames_of(0, row["site"])
    assert [frame["function"] for frame in frames] == [
        "new Lives$Filler",
        "Lives.fill",
        "Lives.main",
    ]
    assert [frame["file"] for frame in frames] == ["", "Lives.java", "Lives.java"]
    assert frames[1]["line"] == line_of("Lives", "new Filler")
    assert row["size"] == 48  # a header of 12 bytes, four longs, and the gap between


def test_a_known_stack_has_the_site_that_the_jvm_would_tell(
    compiled: Compiled, tmp_path: Path
) -> None:
    java, *rest = compiled("Stacks")
    dont_inline = "-XX:CompileCommand=quiet -XX:CompileCommand=dontinline,Stacks::hold".split()
    what = Asked(jvm=True, reachability_bytes=PERIOD)
    trace = api.trace([java, "-Xbatch", *dont_inline, *rest], what=what, folder=tmp_path / "t.tare")
    assert trace.meta["jvm"]["checked_stacks"] > 10
    assert trace.meta["jvm"]["wrong_stacks"] == 0
    lines: Counter[int] = Counter()
    for site, count in (
        of_type(objects_with_types(trace), "Stacks$Made")["site"].value_counts().rows()
    ):
        made, hold, either, *deep = trace.frames_of(0, site)
        assert [made["function"], hold["function"]] == ["new Stacks$Made", "Stacks.hold"]
        assert {frame["function"] for frame in deep} == {"Stacks.deep"}
        lines[either["line"]] += count
    first = line_of("Stacks", "if (first) hold")
    assert lines == {first: 4 * (2000 + 1), first + 1: 4 * (4000 + 1)}


def test_pointers_of_every_kind_are_told(recorded: Recorded) -> None:
    trace = recorded("Pointers", pointers=True)
    found = trace.meta["jvm"]
    assert_walk_agrees(trace)
    assert found["unchanged_classes"] == 0
    assert found["lost_stores"] == 0
    # The rest are of what the JVM made when it started: strings of constants, names of methods.
    assert found["references_known"] / found["references_at_end"] > 0.75
    objects = objects_with_types(trace)
    stores = trace.pointers().collect()
    targets = of_type(objects, "Pointers$Target")["id"]
    alive = of_type(objects, "Pointers$Target").filter(pl.col("unreachable_bytes").is_null())
    assert stores.filter(pl.col("target").is_in(targets.implode()))["target"].n_unique() == len(
        targets
    )
    assert alive.height == len(targets) - 1  # one was overwritten by reflection


def test_threads_may_allocate_to_the_end(compiled: Compiled, tmp_path: Path) -> None:
    """One may be between the record of an object and its tag, or see its death told too late."""
    event_agent()
    command = compiled("Daemons")
    for number in range(3):
        what = Asked(jvm=True, reachability_bytes=PERIOD, pointers=True)
        assert_walk_agrees(api.trace(command, what=what, folder=tmp_path / f"{number}.tare"))


def test_what_fills_gaps_of_the_heap_is_no_object(
    compiled: Compiled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the buffers of threads that allocate while the first objects are looked for."""
    event_agent()
    command = compiled("Early")
    (tmp_path / "manifest").write_text("Premain-Class: Early\n")
    jar = tmp_path / "early.jar"
    classes = command[command.index("-cp") + 1]
    subprocess.run(
        ["jar", "--create", "--file", jar, "--manifest", tmp_path / "manifest",
         "-C", classes, "."],
        check=True,
    )  # fmt: skip
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-javaagent:{jar}")  # read before what Tare adds
    command[command.index("-cp") + 1] = str(jar)
    for number in range(3):
        what = Asked(jvm=True, reachability_bytes=PERIOD, pointers=number == 1)
        assert_walk_agrees(api.trace(command, what=what, folder=tmp_path / f"{number}.tare"))


@pytest.mark.parametrize("hashes", ["counted", "addresses"])
def test_threads_lose_nothing(
    compiled: Compiled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hashes: str
) -> None:
    """Also where the hash of an object is where it was made: then many have the same."""
    event_agent()
    if hashes == "addresses":
        options = [word.replace("hashCode=3", "hashCode=4") for word in jvm_trace._OPTIONS]
        monkeypatch.setattr(jvm_trace, "_OPTIONS", options)
    what = Asked(jvm=True, reachability_bytes=PERIOD, pointers=True)
    trace = api.trace(compiled("Threads"), what=what, folder=tmp_path / "t.tare")
    assert trace.meta["jvm"]["lost_stores"] == 0
    made = of_type(objects_with_types(trace), "Threads$Made")
    assert made.height == 20000
    assert sorted(made.group_by("thread").len()["len"]) == [5000] * 4
    stores = trace.pointers().filter(pl.col("source").is_in(made["id"].implode())).collect()
    told = list(stores.select("source", "target").rows())
    # Each points to the one before of its own thread, or to none.
    expected: set[tuple[int, int | None]] = set()
    for _, own in made.group_by("thread"):
        ids = own["id"].to_list()
        before = [None if j % 100 == 0 else number for j, number in enumerate(ids)]
        expected |= set(zip(ids, [None, *before], strict=False))
    assert expected <= set(told)
    # An object of the JVM itself, of which no event tells, can be taken for one by its address.
    assert hashes == "addresses" or len(told) == len(expected)


@pytest.mark.parametrize("pointers", [False, True])
def test_a_parallel_program_loses_nothing(
    compiled: Compiled, tmp_path: Path, pointers: bool
) -> None:
    if pointers:
        event_agent()
    what = Asked(jvm=True, reachability_bytes=8 * PERIOD, pointers=pointers)
    command = [*compiled("Parallel"), str(tmp_path / "told")]
    trace = api.trace(command, what=what, folder=tmp_path / "t.tare")
    assert trace.meta["complete"], trace.meta["reason"]
    assert violations(trace) == {}
    assert_walk_agrees(trace)
    assert trace.meta["jvm"]["wrong_stacks"] == 0
    objects = objects_with_types(trace)
    assert objects["id"].to_list() == list(range(1, objects.height + 1))
    assert (objects["birth_instructions"].diff().drop_nulls() > 0).all()
    assert objects["birth_bytes"].to_list() == objects["size"].cum_sum().to_list()
    told: dict[str, dict[int, int]] = {}
    for line in (tmp_path / "told").read_text().splitlines():
        what_is_told, thread, number = line.split()
        told.setdefault(what_is_told, {})[int(thread)] = int(number)
    for name, count in PARALLEL_COUNTS.items():
        made = of_type(objects, f"Parallel${name}")
        assert dict(made.group_by("thread").len().rows()) == told[name]
        assert made.height == count
        places = {tuple(trace.frames_of(0, site)[1].items()) for site in made["site"].unique()}
        assert [dict(place)["function"] for place in places] == [
            f"Parallel.{PARALLEL_MAKERS[name]}"
        ]
    if pointers:
        assert_all_stores_are_there(trace, objects)
    else:
        assert_bytes_of_threads(objects, told["bytes"], probe_bytes(trace))


def probe_bytes(trace: Trace) -> int:
    """The agent's own, an object for each collection, among those of the thread that asks for it:
    the JVM counts them, and the trace leaves them out."""
    return 16 * trace.events().filter(pl.col("kind") == "mark").collect().height


def assert_bytes_of_threads(objects: pl.DataFrame, told: Mapping[int, int], probes: int) -> None:
    """As the JVM counts them. Asking it allocates a little, too."""
    assert len(told) == 8
    for thread, count in told.items():
        own = objects.filter(pl.col("thread") == thread)
        (begin,), (end,) = (of_type(own, f"Parallel${name}")["id"] for name in ("Begin", "End"))
        between = own.filter(pl.col("id").is_between(begin, end, closed="none"))
        assert count - probes <= between["size"].sum() <= count + 8192


def assert_all_stores_are_there(trace: Trace, objects: pl.DataFrame) -> None:
    """Each after the births of both objects."""
    stores = trace.pointers().collect()
    times = stores["instructions"]
    assert (times.diff().drop_nulls() > 0).all()
    assert not times.is_in(objects["birth_instructions"].implode()).any()
    births = objects.select("id", "birth_instructions")
    for end in ("source", "target"):
        known = stores.drop_nulls(end).join(births, left_on=end, right_on="id")
        assert known.height == stores.height - stores[end].null_count()
        assert (known["birth_instructions"] < known["instructions"]).all()
    assert trace.meta["jvm"]["lost_stores"] == 0
    made, boxed = (of_type(objects, f"Parallel${name}")["id"] for name in ("Made", "Boxed"))
    links, shares = (stores.filter(pl.col("source").is_in(ids.implode())) for ids in (made, boxed))
    assert sorted(links["source"]) == made.to_list()
    assert sorted(shares["source"]) == boxed.to_list()
    assert shares["target"].n_unique() == 1
    # Each was swapped for the next one but for the last of each of the five places.
    targets = links["target"].drop_nulls()
    assert targets.is_in(made.implode()).all()
    assert targets.n_unique() == len(targets)
    assert len(targets) == len(made) - 5


def test_a_virtual_thread_is_a_thread(compiled: Compiled, tmp_path: Path) -> None:
    java = java_since(21)
    _, *rest = compiled("Virtual")
    what = Asked(jvm=True, reachability_bytes=PERIOD)
    command = [java, *rest, str(tmp_path / "ids")]
    trace = api.trace(command, what=what, folder=tmp_path / "t.tare")
    made = of_type(objects_with_types(trace), "Virtual$Made")
    ids = {int(word) for word in (tmp_path / "ids").read_text().split()}
    assert dict(made.group_by("thread").len().rows()) == dict.fromkeys(ids, 500)
    assert trace.meta["jvm"]["wrong_stacks"] == 0
    callers = [
        [frame["function"] for frame in trace.frames_of(0, site)]
        for site in made["site"].unique().to_list()
    ]
    below = ["new Virtual$Made", "Virtual.make", "Virtual.deep"]
    assert all(functions[:3] == below for functions in callers)
    # Those of the thread that carries it are not its own.
    assert not any("ForkJoin" in name for functions in callers for name in functions)


def test_compact_headers_make_objects_smaller(compiled: Compiled, tmp_path: Path) -> None:
    java = java_since(25)
    event_agent()
    _, *rest = compiled("Lives")
    what = Asked(jvm=True, reachability_bytes=PERIOD, pointers=True, last_seen=True)
    command = [java, "-XX:+UseCompactObjectHeaders", *rest]
    trace = api.trace(command, what=what, folder=tmp_path / "t.tare")
    assert violations(trace) == {}
    assert trace.meta["jvm"]["lost_stores"] == 0
    objects = objects_with_types(trace)
    assert of_type(objects, "Lives$Filler")["size"].unique().to_list() == [8 + 4 * 8]
    kept = of_type(objects, "Lives$Kept")
    assert kept["size"].unique().to_list() == [8 + 8]
    links = trace.pointers().filter(pl.col("source").is_in(kept["id"].implode())).collect()
    assert links["offset"].unique().to_list() == [8]
    assert links["target"].drop_nulls().to_list() == kept["id"].to_list()[:-1]


def test_a_replay_is_the_same_under_a_collector(recorded: Recorded, tmp_path: Path) -> None:
    trace = recorded("Pointers", pointers=True)
    results = replay(
        trace.folder,
        ["glibc", "marksweep(glibc)", "immix(heap=256MiB)", "semispace(heap=256MiB)"],
        how=How(death="unreachable"),
        runs=1,
        warmup=0,
        folder=tmp_path / "replays",
    )
    rows = results.measurements
    assert set(rows["status"]) == {"ok"}
    assert rows.filter(pl.col("metric") == "graph_digest")["value"].n_unique() == 1


def test_a_killed_jvm_leaves_a_trace(compiled: Compiled, tmp_path: Path) -> None:
    what = Asked(jvm=True, reachability_bytes=PERIOD)
    trace = api.trace(compiled("Endless"), what=what, folder=tmp_path / "t.tare")
    assert not trace.meta["complete"]
    assert "SIGKILL" in trace.meta["reason"]
    assert violations(trace) == {}
    assert of_type(objects_with_types(trace), "long[]").height > 25000


@pytest.mark.parametrize("pointers", [False, True])
def test_objects_that_have_no_number_end_the_recording(
    compiled: Compiled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pointers: bool
) -> None:
    """There are 2^32 numbers where pointers are recorded: the limit is set lower here."""
    if pointers:
        event_agent()
    monkeypatch.setenv("TARE_JVM_TRACE_OBJECTS", "30000")
    what = Asked(jvm=True, reachability_bytes=PERIOD, pointers=pointers)
    trace = api.trace(compiled("Lives"), what=what, folder=tmp_path / "t.tare")
    assert trace.meta["objects"] == 30_000
    assert not trace.meta["complete"]
    assert "recording stopped after 30000 objects" in trace.meta["reason"]
    assert violations(trace) == {}


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    def refused(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "tare", "trace", "--jvm", "-o", tmp_path / "t.tare", *words],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stderr
        return done.returncode, done.stderr

    status, said = refused("--", "java", "-XX:+UseG1GC", "Main")
    assert status == 2
    assert "-XX:+UseG1GC clashes" in said
    status, said = refused("--last-use", "--", "java", "Main")
    assert status == 2
    assert "--last-use" in said
    status, said = refused("--", "true")
    assert status == 1
    assert "no JVM" in said
