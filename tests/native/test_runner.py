"""One run: accounted for by the kernel, proved by the process, ended without leftovers."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tare.base.errors import TareError, UsageError
from tare.base.native import native_file
from tare.memory_managers.manager import OWN, resolve
from tare.observers import runner
from tare.observers.runner import run_once
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits, Outcome
from tests.support.processes import processes_with

TOUCH = """
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
  size_t bytes = (size_t)atol(argv[1]) << 20;
  char *block = malloc(bytes);
  memset(block, argc, bytes);
  return block[bytes / 2] != argc;
}
"""
PASS_ON = """
#include <stddef.h>
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void __libc_free(void *);
void *malloc(size_t n) { return __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return __libc_realloc(p, n); }
void free(void *p) { __libc_free(p); }
"""
SPIN = """
#include <time.h>
int main(void) {
  struct timespec now;
  do clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < 300);
  return 0;
}
"""


def run(
    tmp_path: Path,
    *argv: str,
    manager: str = "glibc",
    limits: Limits | None = None,
    **fields: object,
) -> Outcome:
    program = Program("test", argv, **fields)  # type: ignore[arg-type]
    outcome = run_once(program, resolve(manager), limits or Limits(), tmp_path)
    assert not list(tmp_path.glob("run-*")), "a run left its files behind"
    return outcome


def test_the_peak_is_the_program_s_own_and_not_python_s(
    tmp_path: Path, compile_c: Callable[..., Path]
) -> None:
    ballast = bytearray(200 << 20)
    ballast[::4096] = b"x" * len(ballast[::4096])
    outcome = run(tmp_path, "true")
    assert outcome.status is Status.OK
    assert outcome.values["peak_resident_bytes"] < 16 << 20
    outcome = run(tmp_path, str(compile_c(TOUCH)), "64")
    assert 64 << 20 < outcome.values["peak_resident_bytes"] < 80 << 20
    assert len(ballast) > 0


def test_the_figures_agree_with_another_wait4(
    tmp_path: Path, compile_c: Callable[..., Path]
) -> None:
    """The same program under Python's own wait4, in a process that has never been large."""
    program = str(compile_c(TOUCH))
    script = (
        "import os,sys,json\n"
        "pid=os.posix_spawn(sys.argv[1],sys.argv[1:],os.environ)\n"
        "_,_,u=os.wait4(pid,0)\n"
        "print(json.dumps([u.ru_maxrss*1024,u.ru_minflt]))\n"
    )
    reference = json.loads(
        subprocess.check_output([sys.executable, "-S", "-c", script, program, "128"])
    )
    outcome = run(tmp_path, program, "128")
    assert outcome.values["peak_resident_bytes"] == pytest.approx(reference[0], rel=0.02)
    assert outcome.values["minor_faults"] == pytest.approx(reference[1], rel=0.05)


def test_processor_time_is_counted(tmp_path: Path, compile_c: Callable[..., Path]) -> None:
    values = run(tmp_path, str(compile_c(SPIN))).values
    assert values["user_seconds"] + values["system_seconds"] >= 0.29
    assert values["wall_seconds"] >= 0.29


def test_the_time_of_children_is_counted(tmp_path: Path, compile_c: Callable[..., Path]) -> None:
    spin = compile_c(SPIN)
    values = run(tmp_path, "sh", "-c", f"{spin} & {spin}; wait").values
    assert values["user_seconds"] + values["system_seconds"] >= 0.58
    assert values["processes"] == 3


def test_the_memory_of_a_tree_is_summed(tmp_path: Path, compile_c: Callable[..., Path]) -> None:
    holds = """
    #include <stdlib.h>
    #include <string.h>
    #include <unistd.h>
    int main(void) {
      volatile char *p = malloc(50 << 20);
      memset((char *)p, 1, 50 << 20);
      sleep(1);
      return p[7] - 1;
    }
    """
    program = compile_c(holds)
    outcome = run(tmp_path, "sh", "-c", f"{program} & {program} & wait")
    assert outcome.memory_is_sampled
    assert 100 << 20 < outcome.values["peak_resident_bytes"] < 115 << 20


def test_a_vforked_child_takes_no_memory(tmp_path: Path, compile_c: Callable[..., Path]) -> None:
    """Until it calls exec it runs in its parent's, which the kernel tells of both."""
    source = """
    #include <stdlib.h>
    #include <string.h>
    #include <unistd.h>
    int main(void) {
      volatile char *p = malloc(50 << 20);
      memset((char *)p, 1, 50 << 20);
      if (vfork() == 0) {
        usleep(300000);
        _exit(0);
      }
      return p[7] - 1;
    }
    """
    outcome = run(tmp_path, str(compile_c(source)))
    assert outcome.memory_is_sampled
    assert outcome.values["processes"] == 2
    assert 50 << 20 < outcome.values["peak_resident_bytes"] < 60 << 20


def test_every_process_of_the_tree_is_seen(tmp_path: Path) -> None:
    outcome = run(tmp_path, "sh", "-c", "for i in 1 2 3 4 5; do /bin/true; done; exit 0")
    assert outcome.values["processes"] == 6
    assert outcome.silent_processes == 0


def test_failure_is_a_status(tmp_path: Path) -> None:
    outcome = run(tmp_path, "sh", "-c", "echo reason >&2; exit 7")
    assert (outcome.status, outcome.exit_code) == (Status.FAILED, 7)
    assert outcome.values == {}
    assert outcome.error_tail == "reason\n"


def test_a_crash_is_a_status(tmp_path: Path) -> None:
    outcome = run(tmp_path, "sh", "-c", "kill -SEGV $$")
    assert (outcome.status, outcome.signal) == (Status.FAILED, signal.SIGSEGV)
    assert "SIGSEGV" in outcome.reason


def test_a_timeout_ends_the_whole_tree(tmp_path: Path) -> None:
    marker = "86.4213"
    outcome = run(
        tmp_path,
        "sh",
        "-c",
        f"trap '' TERM; setsid sleep {marker} & sleep {marker}",
        limits=Limits(timeout_seconds=0.4),
    )
    assert outcome.status is Status.TIMEOUT
    assert outcome.values == {}
    assert processes_with(f"sleep {marker}") == []


def test_what_is_left_behind_is_ended_and_counted(tmp_path: Path) -> None:
    marker = "86.4214"
    outcome = run(tmp_path, "sh", "-c", f"setsid sleep {marker} >/dev/null 2>&1 &")
    assert outcome.status is Status.OK
    assert outcome.left_behind == 1
    assert processes_with(f"sleep {marker}") == []


def test_the_memory_limit_is_out_of_memory(tmp_path: Path, compile_c: Callable[..., Path]) -> None:
    endless = """
    #include <stdlib.h>
    #include <string.h>
    #include <unistd.h>
    int main(void) { for (;;) { memset(malloc(1 << 20), 1, 1 << 20); usleep(500); } }
    """
    limits = Limits(memory_bytes=64 << 20)
    outcome = run(tmp_path, str(compile_c(endless)), limits=limits)
    assert outcome.status is Status.OUT_OF_MEMORY
    assert outcome.values == {}


def test_endless_output_is_stopped(tmp_path: Path) -> None:
    outcome = run(tmp_path, "yes", limits=Limits(output_bytes=1 << 20))
    assert outcome.status is Status.FAILED
    assert "output limit" in outcome.reason


def test_a_program_that_closes_its_output(tmp_path: Path) -> None:
    outcome = run(tmp_path, "sh", "-c", "exec >&- 2>&-; exit 0")
    assert outcome.status is Status.OK
    assert outcome.output_bytes == 0


def test_input_directory_environment(tmp_path: Path) -> None:
    text = tmp_path / "in put"
    text.write_text("hello")
    outcome = run(tmp_path, "cat", stdin=text)
    assert outcome.output_bytes == 5
    outcome = run(tmp_path, "sh", "-c", 'echo "$WHERE"; pwd', environment={"WHERE": "here"})
    assert outcome.output_bytes == len(f"here\n{os.getcwd()}\n")
    empty = run(tmp_path, "sh", "-c", "ls -A | wc -l; touch x; test {scratch} = $PWD", scratch=True)
    assert empty.status is Status.OK
    assert empty.output_bytes == 2


def test_a_scratch_folder_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the working directory as well, which a relative name would be looked for in."""
    monkeypatch.chdir(tmp_path)
    Path("results").mkdir()
    program = Program("test", ("sh", "-c", "touch {scratch}/x; ls"), scratch=True)
    limits = Limits()
    outcome = run_once(program, resolve("glibc"), limits, Path("results"))
    assert (outcome.status, outcome.output_bytes) == (Status.OK, 2)


def test_braces_of_an_ordinary_program_are_left_alone(tmp_path: Path) -> None:
    assert run(tmp_path, "echo", "{scratch}").output_bytes == len("{scratch}\n")


@pytest.mark.parametrize("word", ["a b", 'quote"', "it's", "new\nline", "<b>&amp;", "$(id)", "-n"])
def test_arguments_arrive_untouched(tmp_path: Path, word: str) -> None:
    outcome = run(tmp_path, "printf", "%s", word)
    assert outcome.status is Status.OK
    assert outcome.output_bytes == len(word)


def test_a_program_that_cannot_start(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot start"):
        run(tmp_path, str(tmp_path / "missing"))
    with pytest.raises(UsageError, match="cannot start"):
        run(tmp_path, "true", directory=tmp_path / "missing")
    with pytest.raises(UsageError, match="cannot be started"):
        run(tmp_path, "echo", "x" * (4 << 20))


def test_a_manager_that_does_not_serve_gives_no_figure(
    tmp_path: Path, compile_c: Callable[..., Path]
) -> None:
    bystander = compile_c("int unused;", "-shared", "-fPIC", name="bystander.so")
    outcome = run(tmp_path, "true", manager=str(bystander))
    assert outcome.status is Status.NOT_LOADED
    assert "libc" in outcome.reason
    assert outcome.values == {}


def test_a_program_with_its_own_malloc_is_told_apart(
    tmp_path: Path, compile_c: Callable[..., Path]
) -> None:
    own_malloc = """
    #include <stddef.h>
    static char heap[1 << 20];
    static size_t used;
    void *malloc(size_t n) { void *p = heap + used; used += (n + 15) & ~(size_t)15; return p; }
    void free(void *p) { (void)p; }
    void *calloc(size_t n, size_t m) { return malloc(n * m); }
    void *realloc(void *p, size_t n) { (void)p; return malloc(n); }
    int main(void) { return malloc(10) == 0; }
    """
    program = compile_c(own_malloc)
    outcome = run(tmp_path, str(program))
    assert outcome.status is Status.NOT_LOADED
    assert str(program) in outcome.reason
    assert run(tmp_path, str(program), manager=OWN).server == str(program)
    as_a_child = run(tmp_path, "sh", "-c", f"{program}; exit 0")
    assert as_a_child.status is Status.NOT_LOADED
    assert str(program) in as_a_child.reason


def test_glibc_serves_a_program_that_links_another_malloc(
    tmp_path: Path, compile_c: Callable[..., Path]
) -> None:
    theirs = compile_c(PASS_ON, "-shared", "-fPIC", name="libtheirs.so")
    source = "#include <stdlib.h>\nint main(void) { return malloc(10) == 0; }"
    program = compile_c(source, f"-Wl,-rpath,{tmp_path}", str(theirs))
    assert run(tmp_path, str(program), manager=OWN).server == str(theirs)
    served = run(tmp_path, str(program))
    assert served.status is Status.OK
    assert Path(served.server).name == "libc.so.6"


def test_a_static_child_is_named(tmp_path: Path, compile_c: Callable[..., Path]) -> None:
    child = compile_c("#include <unistd.h>\nint main(void) { usleep(100000); }", "-static")
    outcome = run(tmp_path, "sh", "-c", f"{child}; exit 0")
    assert outcome.status is Status.OK
    assert outcome.silent_processes == 1


def test_a_manager_in_a_folder_with_a_space(tmp_path: Path) -> None:
    folder = tmp_path / "a folder: with separators"
    folder.mkdir()
    real = folder / "copy.so"
    real.write_bytes(native_file("lib/libtare-probe.so").read_bytes())
    outcome = run(tmp_path, "true", manager=str(real))
    assert outcome.status is Status.NOT_LOADED, "it loads, and shows that it serves no malloc"
    assert "cannot be preloaded" not in outcome.error_tail


def test_counters_that_the_machine_lacks_stay_away(tmp_path: Path) -> None:
    launch = str(native_file("bin/tare-launch"))
    text = subprocess.check_output(
        [launch, "--counter", "absent:4294967295:0", "--counter", "faults:1:2", "--", "true"]
    )
    counters = json.loads(text)["counters"]
    assert "absent" not in counters
    if "faults" not in counters:
        pytest.skip("perf_event_open is not permitted here")
    assert counters["faults"] > 10


def test_an_interrupt_leaves_no_process(tmp_path: Path) -> None:
    marker = "86421.5"

    def interrupt() -> None:
        while len(processes_with(f"sleep {marker}")) < 2:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    interrupter = threading.Thread(target=interrupt, daemon=True)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "sh", "-c", f"sleep {marker} & sleep {marker}")
    assert processes_with(f"sleep {marker}") == []


def test_the_death_of_tare_leaves_no_process(tmp_path: Path) -> None:
    marker = "86421.6"
    script = (
        "from pathlib import Path; from tare.memory_managers.manager import resolve; "
        "from tare.programs.program import Program; from tare.records.runs import Limits; "
        "from tare.observers.runner import run_once; "
        f"run_once(Program('t', ('sleep', '{marker}')), resolve('glibc'), Limits(), "
        f"Path({str(tmp_path)!r}))"
    )
    parent = subprocess.Popen([sys.executable, "-c", script])
    while not any("tare-launch" not in p for p in processes_with(f"sleep {marker}")):
        assert parent.poll() is None, "the program never started"
        time.sleep(0.05)  # waiting for another process, as long as that runs
    parent.kill()
    parent.wait()
    while processes_with(f"sleep {marker}"):
        time.sleep(0.05)  # by the limit of each test it ends


def test_a_full_disk_is_not_taken_for_a_failing_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tare.observers.runner._LEAST_FREE_BYTES", 1 << 62)
    with pytest.raises(TareError, match="full"):
        run_once(Program("t", ("true",)), resolve("glibc"), Limits(), tmp_path)


def test_core_files_are_not_written(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        outcome = run(tmp_path, "sh", "-c", "kill -ABRT $$", scratch=True)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    assert outcome.signal == signal.SIGABRT


def test_a_program_that_is_not_position_independent(
    tmp_path: Path, compile_c: Callable[..., Path]
) -> None:
    """Its symbol table holds malloc, undefined but with a value: the address of its jump table."""
    source = """
    #include <stdlib.h>
    void *(*volatile allocate)(size_t) = malloc;
    int main(void) { return allocate(10) == 0; }
    """
    program = compile_c(source, "-no-pie", "-fno-pie", "-O0")
    outcome = run(tmp_path, str(program))
    assert outcome.status is Status.OK, outcome.reason
    assert Path(outcome.server).name == "libc.so.6"


def test_a_program_that_becomes_another_one(tmp_path: Path, compile_c: Callable[..., Path]) -> None:
    source = "#include <unistd.h>\nint main(void) { usleep(1500000); }"
    static = compile_c(source, "-static")
    outcome = run(tmp_path, "sh", "-c", f"exec {static}")
    assert outcome.status is Status.NOT_LOADED
    assert str(static) in outcome.reason
    bare = run(tmp_path, "env", "-i", "/bin/sleep", "1.5")
    assert bare.status is Status.NOT_LOADED
    child = run(tmp_path, "sh", "-c", "env -u LD_PRELOAD sleep 1.5; exit 0")
    assert child.status is Status.OK
    assert child.silent_processes == 1
    served = run(tmp_path, "sh", "-c", "exec sleep 1.5")
    assert served.status is Status.OK
    assert served.silent_processes == 0
    assert Path(served.executable).name in ("sleep", "coreutils")
    assert Path(child.executable).name != "sleep", "a child is another process"


def test_a_program_that_executes_itself_again(
    tmp_path: Path, compile_c: Callable[..., Path]
) -> None:
    """Each of its images owes a proof: that of the first says nothing of the second."""
    source = """
    #include <stdlib.h>
    #include <string.h>
    #include <unistd.h>
    int main(int count, char **words) {
      if (count == 1) return usleep(1500000);
      if (strcmp(words[1], "bare") == 0) unsetenv("LD_PRELOAD");
      words[1] = NULL;
      if (strcmp(words[0], "child") == 0 && vfork() != 0) return usleep(1500000);
      execv("/proc/self/exe", words);
      return 1;
    }
    """
    program = str(compile_c(source))
    bare = run(tmp_path, program, "bare")
    assert bare.status is Status.NOT_LOADED
    assert program in bare.reason
    for served in (run(tmp_path, program, "served"), run(tmp_path, program)):
        assert served.status is Status.OK, served.reason
        assert served.silent_processes == 0
    child = run(tmp_path, "bash", "-c", f"exec -a child {program} bare")
    assert child.status is Status.OK
    assert child.silent_processes == 1


def test_shells_and_make_show_each_of_their_images(tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(
        "all: $(shell seq -f %gx 40)\n%x:\n\t@sh -c 'sleep 0.02; exec sh -c \"sleep 0.02\"'\n"
    )
    shell = "for i in 1 2 3 4 5; do (sleep 0.02; true | cat); done; exec sh -c 'exec sleep 0.1'"
    for words in (["sh", "-c", shell], ["make", "-s", "-j4", "-C", str(tmp_path)]):
        outcome = run(tmp_path, *words)
        assert outcome.status is Status.OK, outcome.reason
        assert outcome.silent_processes == 0


def test_time_that_the_host_gave_to_others_is_recorded(
    tmp_path: Path, compile_c: Callable[..., Path]
) -> None:
    steal = run(tmp_path, str(compile_c(SPIN))).details["steal"]
    assert 0 <= steal["share"] <= 1
    assert steal["seconds"] >= 0
    assert runner._steal({"busy_milliseconds": 300, "stolen_milliseconds": 100}) == {
        "steal": {"seconds": 0.1, "share": 0.25}
    }
    # Where the kernel tells nothing, as in some containers.
    assert runner._steal({"busy_milliseconds": -1, "stolen_milliseconds": -1}) == {}
