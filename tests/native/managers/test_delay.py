"""The quarantine, `delay(M, …)`: its proof, and its C++ against a model."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.base.native import native_file
from tare.memory_managers.layers import delay
from tare.memory_managers.manager import machine_libc, resolve
from tare.observers.runner import run_once
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome
from tests.conftest import Completed
from tests.native.managers.delay_fuzzer import MOST, fuzz_sanitized, sanitized_fuzzer
from tests.native.managers.delay_programs import delayed_runner, good
from tests.native.managers.layered import INNERS, Compile
from tests.native.programs import built


@pytest.fixture
def run(tmp_path: Path, compile_c: Compile) -> Callable[..., Outcome]:
    return delayed_runner(tmp_path, compile_c)


def test_an_object_of_ones_own_can_be_delayed(compile_c: Compile) -> None:
    mine = compile_c("int unused;", "-shared", "-fPIC", name="libmine.so")
    manager = resolve(f"delay({mine}, size=4KiB)")
    assert manager.name == f"delay({mine}, size=4KiB)"
    assert manager.preload == (native_file(delay.OBJECT), mine.resolve())
    assert manager.stands_behind(str(mine))
    assert not manager.serves(str(mine))


def test_the_command_line_refuses(tare: Callable[..., Completed]) -> None:
    done = tare("compare", "-m", "delay(glibc, size=2GiB)", "--", "true")
    assert done.returncode == 2
    assert "delay(size=2GiB): must be between 1B and 1GiB" in done.stderr
    assert "Traceback" not in done.stderr


# Proof


def test_a_program_with_a_free_of_its_own_does_not_count(run: Callable[..., Outcome]) -> None:
    outcome = run("void free(void* p) { (void)p; } int main(void) { return 0; }", "delay(glibc)")
    assert outcome.status is Status.NOT_LOADED
    assert "free of" in outcome.reason
    assert not outcome.values


def test_another_allocator_behind_the_layer_does_not_count(
    run: Callable[..., Outcome], tmp_path: Path, compile_c: Compile
) -> None:
    """The layer shows what stands behind it, and not what should."""
    claimed = compile_c("int unused;", "-shared", "-fPIC", name="libclaimed.so")
    outcome = run("int main(void) { return 0; }", f"delay({claimed})")
    assert outcome.status is Status.NOT_LOADED
    assert "the layer of process" in outcome.reason
    assert "libc.so.6" in outcome.reason


def test_an_allocator_that_tells_no_sizes_is_refused(
    run: Callable[..., Outcome], compile_c: Compile
) -> None:
    """The C library would answer for objects that it does not know."""
    source = (
        "#include <stddef.h>\nstatic char heap[1 << 20]; static size_t used;"
        "void* malloc(size_t n) { used = (used + n + 15) / 16 * 16; return heap + used - n; }"
        "void* calloc(size_t n, size_t m) { return malloc(n * m); }"
        "void* realloc(void* p, size_t n) { return p ? NULL : malloc(n); }"
        "void free(void* p) { (void)p; }"
    )
    mine = compile_c(source, "-shared", "-fPIC", "-fno-builtin", name="libmine.so")
    outcome = run("int main(void) { return 0; }", f"delay({mine})")
    assert outcome.status is Status.FAILED
    assert "libmine.so defines free but not malloc_usable_size" in outcome.error_tail


def test_wrong_variables_are_told_of(tmp_path: Path) -> None:
    environment = {"LD_PRELOAD": f"{native_file(delay.OBJECT)} {machine_libc()}"}
    for variable, value in [("SIZE", "0"), ("SIZE", "9" * 30), ("SCOPE", "x"), ("BUFFER", "12")]:
        done = subprocess.run(
            ["true"],
            env=environment | {f"TARE_DELAY_{variable}": value},
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert done.returncode < 0
        assert f"TARE_DELAY_{variable} is '{value}'" in done.stderr


def test_compare_gives_the_metrics(tare: Callable[..., Completed]) -> None:
    done = tare(
        "compare", "-n", "2", "--quiet", "--json", "-", "-m", "glibc", "-m",
        "delay(glibc, size=64KiB)", "--", "perl", "-e", "my @a = map { $_ } 1 .. 10000; print 1",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["measurements"]
    found = {row["metric"] for row in rows if row["manager"] == "delay(glibc, size=64KiB)"}
    assert {"collections", "quarantined_bytes", "max_pause_seconds"} <= found
    assert not [r for r in rows if r["manager"] == "glibc" and r["metric"] == "collections"]


# The C++ itself


@pytest.mark.parametrize("kind", ["memory", "thread"])
def test_under_sanitizers(kind: str) -> None:
    path = built(f"delay_harness_{kind}")
    for threads, objects, seed, size, scope, buffer, poison in [
        (4, 3000, 1, 1, "thread", 0, "no"),
        (4, 3000, 2, 65536, "thread", 0, "yes"),
        (4, 3000, 3, 65536, "global", 4096, "no"),
        (3, 3000, 4, 1, "global", 0, "no"),
        (3, 3000, 5, 1048576, "thread", 4096, "yes"),
    ]:
        words = map(str, (threads, objects, seed, size, scope, buffer, poison))
        done = subprocess.run([path, *words], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr[:4000]


@pytest.mark.parametrize("kind", ["memory", "thread"])
def test_forks_while_objects_are_released(kind: str) -> None:
    path = built(f"delay_forks_{kind}")
    environment = {"TSAN_OPTIONS": "die_after_fork=0"}
    done = subprocess.run([path, "30"], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr[:4000]


@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_random_calls_under_sanitizers(tmp_path: Path, sanitizer: str) -> None:
    fuzz_sanitized(sanitized_fuzzer(tmp_path, sanitizer), seed=1, operations=3000)


@pytest.fixture(scope="session")
def fuzzer() -> Path:
    return built("delay_fuzz")


@pytest.mark.parametrize("inner", INNERS)
def test_random_calls_against_a_model(fuzzer: Path, tmp_path: Path, inner: str) -> None:
    """The model knows to the byte what is held; see also the next test. One thread over dlmalloc:
    with several, objects lose their contents now and then over bare dlmalloc too. One over scudo
    that frees at once: where threads wait for each other, bare scudo's free changes errno."""
    for options, words in [
        ("size=64KiB", ("1", "20000", "1", "65536", MOST, "delay", "1")),
        ("size=64KiB, poison=yes", ("2", "20000", "4", "65536", MOST, "delay", "0")),
        ("size=1B", ("3", "20000", "3", "1", MOST, "delay", "0")),
        ("size=1GiB, buffer=40KiB, order=lifo, realloc=pass",
         ("4", "40000", "2", str(1 << 30), "5120", "pass", "0")),
        ("size=64KiB, scope=global", ("5", "20000", "4", "0", MOST, "delay", "0")),
    ]:  # fmt: skip
        seed, operations, threads, *model = words
        if inner == "dlmalloc" or (inner == "scudo" and options == "size=1B"):
            threads = "1"
        program = Program("fuzz", (str(fuzzer), seed, operations, threads, *model))
        manager = resolve(f"delay({inner}, {options})")
        good(run_once(program, manager, Limits(), tmp_path))


@pytest.mark.parametrize(
    ("options", "size", "capacity"),
    [
        ("size=64KiB", "65600", MOST),
        ("size=1GiB, buffer=40KiB", str(1 << 30), "5121"),
        ("size=64KiB, realloc=pass", "65536", MOST),
    ],
)
def test_a_wrong_model_is_noticed(
    fuzzer: Path, tmp_path: Path, options: str, size: str, capacity: str
) -> None:
    """The fuzzer thinks that objects are held for longer, or more of them, than they are."""
    program = Program("fuzz", (str(fuzzer), "1", "50000", "1", size, capacity, "delay", "0"))
    outcome = run_once(program, resolve(f"delay(glibc, {options})"), Limits(), tmp_path)
    assert "is still in quarantine" in outcome.error_tail
