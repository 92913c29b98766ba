"""Recordings of threads and of processes, however they end, and of a tool in trouble."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.native.instrument.programs import OWN_MALLOC
from tests.native.instrument.recordings.recorded import (
    BLOCK_ROWS,
    NO_GUARDS,
    Compile,
    check,
    command,
    read,
    recorded,
    tool,
)


def test_threads(tmp_path: Path, program: Compile) -> None:
    path = program(
        """
      pthread_t threads[4];
      for (long i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, work, (void *)i);
      for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);""",
        """static void *work(void *number) {
          volatile char *p[100];
          for (int round = 0; round < 100; ++round) {
            for (int i = 0; i < 100; ++i) p[i] = malloc(700 + (long)number);
            for (int i = 0; i < 100; i += 2) p[i][i] = 1;
            for (int i = 0; i < 100; ++i) free((void *)p[i]);
          }
          return number; }""",
    )
    recording, _ = recorded(tmp_path, path, options=["--pointers=yes", "--reachability=500000"])
    assert recording.process.numbers["threads"] == 5
    threads = set()
    for number in range(4):
        rows = recording.of_size(700 + number)
        assert len(rows) == 10_000
        (thread,) = set(recording.births["thread"][rows].tolist())
        threads.add(thread)
        assert (recording.deaths["free_instructions"][rows] > 0).all()
        assert np.count_nonzero(recording.deaths["first_use"][rows]) == 5000
    assert threads == {2, 3, 4, 5}


def test_a_guard_is_not_read_while_another_thread_makes_it(
    tmp_path: Path, program: Compile
) -> None:
    """glibc 2.42 makes guards of stacks so; other threads run during the call."""
    path = program(
        """
      pthread_t thread;
      pthread_create(&thread, NULL, guards, NULL);
      for (int i = 0; i < 4000; ++i) free(malloc(700));
      is_over = 1;
      void *refused;
      pthread_join(thread, &refused);
      return refused != NULL;""",
        """static volatile int is_over;
        static void *guards(void *unused) {
          while (!is_over) {
            const int kind = MAP_PRIVATE | MAP_ANONYMOUS;
            char *p = mmap(NULL, 16 << 12, PROT_READ | PROT_WRITE, kind, -1, 0);
            if (madvise(p + (8 << 12), 4096, 102 /* MADV_GUARD_INSTALL */) != 0) return p;
            munmap(p, 16 << 12);
          }
          return unused; }""",
    )
    done, _ = tool(tmp_path, path, options=["--reachability=1000"])
    if (done.returncode, done.stderr) == (1, ""):
        pytest.skip(NO_GUARDS)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_thousand_threads(tmp_path: Path, program: Compile) -> None:
    path = program(
        """
      for (int i = 0; i < 1000; ++i) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, NULL);
        pthread_join(thread, NULL);
      }""",
        """static void *work(void *unused) {
          volatile char *p = malloc(700);
          *p = 1;
          free((void *)p);
          return unused; }""",
    )
    recording, _ = recorded(tmp_path, path)
    rows = recording.of_size(700)
    assert recording.births["thread"][rows].tolist() == list(range(2, 1002))
    assert (recording.deaths["first_use"][rows] > 0).all()
    assert {recording.calls(row)[0] for row in rows} == {"work"}


FORKS = """
  volatile char *before = malloc(701), *kept = malloc(702);
  pid_t child = FORK();
  if (child == 0) {
    before[1] = 1;
    free((void *)before);
    free(keep(malloc(703)));
    _exit(0);
  }
  waitpid(child, NULL, 0);
  kept[1] = 1;
  free(keep(malloc(704)));"""


def test_the_child_of_a_fork_has_a_recording_of_its_own(tmp_path: Path, program: Compile) -> None:
    path = program(FORKS.replace("FORK", "fork"))
    _, (parent, child) = tool(tmp_path, path)
    check(parent)
    check(child)
    assert child.process.numbers["parent"] == parent.process.pid
    assert child.process.numbers["inherited_frees"] == 1
    assert child.births["size"].tolist() == [703]
    assert child.calls(0)[0] == "main"
    assert [size for size in parent.births["size"].tolist() if size >= 700] == [701, 702, 704]
    row = parent.only(701)
    assert parent.deaths["free_instructions"][row] == 0
    assert parent.deaths["first_use"][row] == 0
    assert parent.deaths["first_use"][parent.only(702)] > 0
    assert child.process.numbers["instructions"] < parent.process.numbers["instructions"]


def test_a_vfork_that_execs(tmp_path: Path, program: Compile) -> None:
    last = program("for (int i = 0; i < 20; ++i) keep(malloc(705));", name="last")
    path = program(f"""
      keep(malloc(706));
      pid_t child = vfork();
      if (child == 0) {{ execl("{last}", "last", NULL); _exit(1); }}
      int status;
      waitpid(child, &status, 0);
      keep(malloc(707));
      return status;""")
    done, recordings = tool(tmp_path, path)
    assert done.returncode == 0
    parent, child = recordings[0], recordings[-1]
    check(parent)
    check(child)
    assert [size for size in parent.births["size"].tolist() if size >= 700] == [706, 707]
    assert child.births["size"].tolist().count(705) == 20
    assert child.process.pid != parent.process.pid
    assert {each.process.pid for each in recordings} == {child.process.pid, parent.process.pid}


def test_before_and_after_an_exec(tmp_path: Path, program: Compile) -> None:
    last = program("free(keep(malloc(708)));", name="last")
    path = program(f"""
      volatile char *kept = malloc(709);
      void *freed = malloc(710);
      execl("/nonexistent", "x", NULL);
      kept[1] = 1;
      free(freed);
      keep(malloc(711));
      execl("{last}", "last", NULL);""")
    done, (first, second) = tool(tmp_path, path)
    assert done.returncode == 0
    assert (first.process.end, second.process.end) == ("exec", "exit")
    assert first.process.pid == second.process.pid
    check(first)
    check(second)
    assert first.deaths["first_use"][first.only(709)] > 0
    assert first.deaths["free_instructions"][first.only(710)] > 0
    assert first.of_size(711)
    assert second.of_size(708)


@pytest.mark.parametrize(
    ("end", "number"),
    [("abort();", signal.SIGABRT), ("*(volatile int *)0 = 1;", signal.SIGSEGV),
     ("raise(SIGTERM);", signal.SIGTERM), ("__builtin_trap();", signal.SIGILL)],
)  # fmt: skip
def test_a_crash_leaves_a_whole_recording(
    tmp_path: Path, program: Compile, end: str, number: int
) -> None:
    path = program(f"for (int i = 0; i < 60; ++i) *(volatile char *)malloc(712) = 1; {end}")
    done, (recording,) = tool(tmp_path, path)
    assert done.returncode == -number
    check(recording)
    rows = recording.of_size(712)
    assert len(rows) == 60
    assert (recording.deaths["first_use"][rows] > 0).all()


def test_a_killed_process_leaves_all_but_its_last_blocks(tmp_path: Path, program: Compile) -> None:
    born = 50_000
    path = program(f"""
      for (int i = 0; i < {born}; ++i) free(keep(malloc(713)));
      puts("ready");
      fflush(stdout);
      for (;;) pause();""")
    folder = tmp_path / "recording"
    folder.mkdir()
    words = [*command(folder), str(path)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        running.kill()
    (recording,) = read(folder)
    assert recording.process.end == "running"
    assert recording.damage == {}, "whole blocks are written in one piece"
    assert born - BLOCK_ROWS < len(recording.births["size"]) <= born
    ended = np.count_nonzero(recording.deaths["free_instructions"])
    assert born - 2 * BLOCK_ROWS < ended <= born
    assert not recording.births["site"].any() or recording.calls(0)[0] == "main"


def test_signals_that_allocate_in_the_midst_of_everything(tmp_path: Path, program: Compile) -> None:
    path = program(
        """
      static char other[1 << 16];
      stack_t stack = {.ss_sp = other, .ss_size = sizeof other};
      sigaltstack(&stack, NULL);
      struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
      sigaction(SIGPROF, &action, NULL);
      struct itimerval often = {{0, 5000}, {0, 5000}};
      setitimer(ITIMER_PROF, &often, NULL);
      while (handled < 20)
        for (int i = 0; i < 300; ++i) {
          volatile char *p = malloc(26);
          p[i % 26] = 1;
          free((void *)p);
        }
      setitimer(ITIMER_PROF, &(struct itimerval){0}, NULL);
      printf("%d", handled);""",
        OWN_MALLOC
        + """static volatile int handled;
        static void handle(int number) { *(volatile char *)malloc(25) = number; ++handled; }""",
    )
    recording, printed = recorded(tmp_path, path)
    rows = recording.of_size(25)
    assert len(rows) == int(printed) >= 20
    for row in rows:
        assert recording.calls(row)[0] == "handle"
        # The function that is interrupted has called nothing, so only what called it is known.
        assert "(below main)" in recording.calls(row)
    assert {recording.calls(row)[0] for row in recording.of_size(26)} == {"main"}
    assert (recording.deaths["first_use"][recording.of_size(26)] > 0).all()


def test_a_full_disk_is_told_of_once(tmp_path: Path, program: Compile) -> None:
    path = program('for (int i = 0; i < 40000; ++i) free(keep(malloc(716))); puts("done");')
    folder = tmp_path / "recording"

    def fill() -> None:
        for name in ("births", "deaths"):
            (folder / f"{os.getpid()}.0.{name}").symlink_to("/dev/full")

    done, _ = tool(tmp_path, path, preexec_fn=fill)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr.count("is the disk full?") == 1
    assert len(done.stderr.splitlines()) == 1


def test_a_file_that_may_not_grow_keeps_what_it_has(tmp_path: Path, program: Compile) -> None:
    path = program('for (int i = 0; i < 40000; ++i) free(keep(malloc(717))); puts("done");')

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 17, 1 << 17))

    done, (recording,) = tool(tmp_path, path, preexec_fn=limit, restore_signals=False)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr.count("is the disk full?") == 1
    assert 4096 <= len(recording.births["size"]) < 40_000
    assert "births" in recording.damage
    assert (recording.births["size"][1:] == 717).all()


def test_a_folder_that_is_not_there_is_told_of(tmp_path: Path) -> None:
    words = command(tmp_path / "missing")
    done = subprocess.run([*words, "/bin/echo", "done"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "cannot write" in done.stderr


def test_memory_is_bounded_by_what_is_alive(tmp_path: Path, program: Compile) -> None:
    """Ten times the objects, one alive at a time, and no more memory in the tool, which is in the
    process of the program."""
    path = program(
        """
      for (long left = atol(getenv("OBJECTS")); left > 0; --left) free(keep(malloc(40)));
      char line[200];
      for (FILE *file = fopen("/proc/self/status", "r"); fgets(line, sizeof line, file);)
        if (strncmp(line, "VmHWM:", 6) == 0) fputs(line + 6, stdout);"""
    )
    peaks = []
    for objects in (300_000, 3_000_000):
        done, (recording,) = tool(tmp_path, path, env={"OBJECTS": str(objects)})
        assert len(recording.births["size"]) >= objects
        amount, unit = done.stdout.split()
        assert unit == "kB"
        peaks.append(int(amount))
    assert peaks[1] - peaks[0] < 1024


def test_a_program_may_close_everything_and_go_elsewhere(tmp_path: Path, program: Compile) -> None:
    path = program("""
      keep(malloc(718));
      for (int file = 0; file < 2000; ++file) close(file);
      if (chdir("/") != 0) return 1;
      for (int i = 0; i < 10000; ++i) free(keep(malloc(719)));
      if (open("/dev/null", 0) != 0 || dup(0) != 1) return 2;
      keep(strdup("a frame that was not seen before"));""")
    recording, _ = recorded(tmp_path, path)
    assert len(recording.of_size(718)) == 1
    assert len(recording.of_size(719)) == 10_000


def test_a_recording_repeats(tmp_path: Path, program: Compile) -> None:
    path = program("for (int i = 0; i < 3000; ++i) free(keep(malloc(i * 7 % 5000)));")
    first, second = (recorded(tmp_path, path)[0] for _ in range(2))
    for table in ("births", "deaths", "sites"):
        for column, values in getattr(first, table).items():
            assert (values == getattr(second, table)[column]).all(), column
