"""The agent that times events in a JVM: what it sees, and that the program stays as it is."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tare.observers.event_agent import agent_option
from tare.studies.proximity.analysis import CONTROLS, WORDS, Recorded, read_recorded
from tests.support.java import event_agent, java_since

MOST = 4_000_000

Classes = Callable[..., Path]


@dataclass(frozen=True)
class Ended:
    """A program, and what the agent saw of each of its processes."""

    status: int
    output: str
    errors: str
    recorded: dict[int, Recorded]

    @property
    def only(self) -> Recorded:
        (one,) = self.recorded.values()
        return one


@pytest.fixture(scope="session")
def jar() -> Path:
    return event_agent()


@pytest.fixture
def classes(tmp_path: Path) -> Classes:
    """Compile Java source text, a file for each class."""

    def compile_sources(*flags: str, **sources: str) -> Path:
        folder = tmp_path / "classes"
        for name, text in sources.items():
            (tmp_path / f"{name}.java").write_text(text)
        files = [tmp_path / f"{name}.java" for name in sources]
        subprocess.run(["javac", "-nowarn", "-d", folder, *flags, *files], check=True)
        return folder

    return compile_sources


@pytest.fixture
def run(jar: Path, tmp_path: Path) -> Callable[..., Ended]:
    def run_java(
        folder: Path,
        *events: str,
        every: int = 0,
        length_ns: int = 0,
        flags: tuple[str, ...] = (),
        java: str = "java",
    ) -> Ended:
        where = tmp_path / "out=put, of events"
        where.mkdir()
        option = agent_option(jar, events, where / "events-%p", every, length_ns)
        done = subprocess.run(
            [
                java,
                "-Xshare:auto",
                "-XX:TieredStopAtLevel=1",
                *flags,
                option,
                "-cp",
                folder,
                "Main",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        recorded = {
            int(path.name.rpartition("-")[2]): read_recorded(path, MOST) for path in where.iterdir()
        }
        return Ended(done.returncode, done.stdout, done.stderr, recorded)

    return run_java


EVERY_SHAPE = """
import java.util.*;
public class Main implements Shape {
    @java.lang.annotation.Retention(java.lang.annotation.RetentionPolicy.RUNTIME)
    @interface Timed {}
    static int one(int key, String text) { return key + text.length(); }
    long two(long key, double x, int[] more) { return key + (long) x + more[0]; }
    static double three(double x, long y, float z) { return x + y + z; }
    synchronized String four(String key) { return key + "!"; }
    static void five() { if (Math.abs(1) == 1) throw new IllegalStateException("thrown"); }
    static <T extends Comparable<T>> T six(List<T> of) { return Collections.max(of); }
    static int seven(int depth) { return depth == 0 ? 0 : 1 + seven(depth - 1); }
    @Timed static byte eight(@Deprecated byte b) {
        byte sum = 0;
        for (int i = 0; i < 3; i++) { try { sum += b; } finally { sum++; } }
        return sum;
    }
    public static void main(String[] a) throws Exception {
        Main m = new Main();
        StringBuilder out = new StringBuilder();
        out.append(one(41, "x")).append(' ').append(m.two(1L << 40, 2.5, new int[] {7}));
        out.append(' ').append(three(1, 2, 3)).append(' ').append(m.four("key"));
        try { five(); } catch (IllegalStateException e) { out.append(' ').append(e.getMessage()); }
        out.append(' ').append(six(List.of(3, 9, 4))).append(' ').append(seven(5));
        out.append(' ').append(eight((byte) 4)).append(' ').append(m.nine((short) 6));
        var method = Main.class.getDeclaredMethod("eight", byte.class);
        out.append(' ').append(method.isAnnotationPresent(Timed.class));
        out.append(' ').append(method.getParameterAnnotations()[0].length);
        System.out.println(out);
    }
}
"""
SHAPE = "interface Shape { default int nine(short s) { return s * 2; } }"
NAMES = ("one", "two", "three", "four", "five", "six", "seven", "eight")
SAID = "42 1099511627785 6.0 key! thrown 9 5 15 12 true 1"


def java_hash(text: str) -> int:
    value = 0
    for letter in text:
        value = (value * 31 + ord(letter)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


@pytest.mark.parametrize("release", ["8", "17"])
def test_methods_of_every_shape(release: str, classes: Classes, run: Callable[..., Ended]) -> None:
    source = EVERY_SHAPE
    if release == "8":
        source = source.replace("List.of(", "Arrays.asList(").replace(
            "var method", "java.lang.reflect.Method method"
        )
    folder = classes("--release", release, Shape=SHAPE, Main=source)
    ended = run(folder, *(f"Main.{name}" for name in NAMES), "Shape.nine")
    assert ended.status == 0, ended.errors
    assert ended.output.strip() == SAID
    seen = ended.only
    assert seen.methods == len(NAMES) + 1
    # Of calls inside one another only the outermost counts.
    assert len(seen.events) == len(NAMES) + 1
    assert seen.events.key.tolist() == [41, 1 << 40, 0, java_hash("key"), 0, 0, 5, 4, 6]
    assert (np.diff(seen.events.start) > 0).all()
    assert (seen.events.end[:-1] <= seen.events.start[1:]).all()


def test_an_annotation_chooses_methods(classes: Classes, run: Callable[..., Ended]) -> None:
    ended = run(classes(Shape=SHAPE, Main=EVERY_SHAPE), "@Main$Timed")
    assert ended.output.strip() == SAID
    assert ended.only.methods == 1
    assert ended.only.events.key.tolist() == [4]


TIMES = """
public class Main {
    static volatile long sink;
    static void work(int what) throws Exception {
        if (what == 1) Thread.sleep(30);
        long end = System.nanoTime() + 30_000_000;
        while (what == 2 && System.nanoTime() < end) sink++;
    }
    public static void main(String[] a) throws Exception {
        System.out.println(System.nanoTime());
        for (int what = 0; what < 3; what++) work(what);
        System.out.println(System.nanoTime());
    }
}
"""


def test_times_are_those_of_the_clocks(classes: Classes, run: Callable[..., Ended]) -> None:
    ended = run(classes(Main=TIMES), "Main.work")
    before, after = map(int, ended.output.split())
    events = ended.only.events
    assert before <= events.start[0]
    assert events.end[-1] <= after
    nothing, sleep, spin = events.wall.tolist()
    assert min(sleep, spin) >= 30_000_000
    assert nothing < 30_000_000
    # A sleep takes no processor time; a spin no more than has passed.
    assert events.cpu[1] < 20_000_000
    assert 0 < events.cpu[2] <= spin + 1_000_000


THREADS = """
public class Main {
    static void work(int what) {}
    public static void main(String[] a) throws Exception {
        Thread[] threads = new Thread[4];
        for (int t = 0; t < threads.length; t++) {
            threads[t] = new Thread(() -> { for (int i = 0; i < 20000; i++) work(i); });
            threads[t].start();
        }
        for (Thread thread : threads) thread.join();
    }
}
"""


def test_threads_lose_nothing(classes: Classes, run: Callable[..., Ended]) -> None:
    events = run(classes(Main=THREADS), "Main.work").only.events
    assert len(events) == 80_000
    for thread in np.unique(events.thread):
        assert events.key[events.thread == thread].tolist() == list(range(20_000))


def test_the_processor_time_of_virtual_threads_is_not_known(
    classes: Classes, run: Callable[..., Ended]
) -> None:
    java = java_since(21)
    start = 'Thread.class.getMethod("startVirtualThread", Runnable.class).invoke'
    source = THREADS.replace("new Thread(() ->", f"(Thread) {start}(null, (Runnable) () ->")
    source = source.replace("threads[t].start();", "").replace("20000", "300")
    events = run(classes(Main=source), "Main.work", java=java).only.events
    assert len(events) == 4 * 300
    assert np.unique(events.thread).size == 4
    assert not events.cpu.any()


def test_pauses_are_put_in(classes: Classes, run: Callable[..., Ended]) -> None:
    source = THREADS.replace("new Thread[4]", "new Thread[1]").replace("20000", "1500")
    seen = run(classes(Main=source), "Main.work", every=100, length_ns=2_000_000).only
    assert len(seen.events) == 1500
    assert len(seen.halts) == 15
    for kind in CONTROLS:
        pauses = seen.halts.of(kind)
        assert len(pauses) == 5
        assert (pauses.end - pauses.start >= 2_000_000).all()
    place = np.searchsorted(seen.events.start, seen.halts.start)
    assert place.tolist() == list(range(100, 1501, 100))


ALLOCATION = """
public class Main {
    static int work(int what) { return what; }
    public static void main(String[] a) {
        var beans = (com.sun.management.ThreadMXBean)
            java.lang.management.ManagementFactory.getThreadMXBean();
        for (int i = 0; i < 1000; i++) work(i);
        long before = beans.getCurrentThreadAllocatedBytes();
        for (int i = 0; i < 10000; i++) work(i);
        System.out.println(beans.getCurrentThreadAllocatedBytes() - before);
    }
}
"""


@pytest.mark.parametrize("every", [0, 100])
def test_timing_does_not_allocate(every: int, classes: Classes, run: Callable[..., Ended]) -> None:
    ended = run(classes(Main=ALLOCATION), "Main.work", every=every, length_ns=1000)
    assert len(ended.only.events) == 11_000
    assert int(ended.output) < 1000


KILLED = """
public class Main {
    static void work(int what) {}
    public static void main(String[] a) {
        for (int i = 0; i < 5000; i++) work(i);
        Runtime.getRuntime().halt(9);
    }
}
"""


def test_what_was_seen_survives_the_process(classes: Classes, run: Callable[..., Ended]) -> None:
    ended = run(classes(Main=KILLED), "Main.work")
    assert ended.status == 9
    assert len(ended.only.events) == 5000


CHILD = """
public class Main {
    static void work(int what) {}
    public static void main(String[] a) throws Exception {
        work(1);
        if (a.length > 0) return;
        String path = System.getProperty("java.class.path");
        String option = java.lang.management.ManagementFactory.getRuntimeMXBean()
            .getInputArguments().stream().filter(o -> o.startsWith("-javaagent")).findFirst().get();
        new ProcessBuilder("java", option, "-cp", path, "Main", "child").start().waitFor();
    }
}
"""


def test_each_process_has_a_file(classes: Classes, run: Callable[..., Ended]) -> None:
    ended = run(classes(Main=CHILD), "Main.work")
    assert [len(each.events) for each in ended.recorded.values()] == [1, 1]


def test_a_method_that_is_not_there(classes: Classes, run: Callable[..., Ended]) -> None:
    ended = run(classes(Main=KILLED), "Main.play", "Other.work")
    assert ended.only.methods == 0
    assert len(ended.only.events) == 0


def test_too_many_events_are_counted(classes: Classes, jar: Path, tmp_path: Path) -> None:
    folder = classes(Main=KILLED)
    option = agent_option(jar, ["Main.work"], tmp_path / "e").replace(f"{MOST}", "100")
    subprocess.run(["java", option, "-cp", folder, "Main"], check=False)
    seen = read_recorded(tmp_path / "e", 100)
    assert (len(seen.events), seen.dropped) == (100, 4900)


def test_a_killed_process_leaves_whole_events(classes: Classes, jar: Path, tmp_path: Path) -> None:
    folder = classes(Main=KILLED.replace("i < 5000", "i >= 0"))
    option = agent_option(jar, ["Main.work"], tmp_path / "e").replace(f"{MOST}", "10000")
    with subprocess.Popen(["java", option, "-cp", folder, "Main"]) as process:
        try:
            while not has_events(tmp_path / "e"):
                assert process.poll() is None
                time.sleep(0.01)  # waiting for another process, as long as that runs
        finally:
            process.kill()
    events = read_recorded(tmp_path / "e", 10_000).events
    assert events.key.tolist() == list(range(len(events)))


def has_events(path: Path) -> bool:
    """Whether the first record behind the head is there."""
    return path.exists() and any(path.read_bytes()[8 * WORDS : 8 * WORDS + 8])
