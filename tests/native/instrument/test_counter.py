"""How often the instrument says that each instruction was executed: against callgrind, and against
programs of which it is known."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.executions import Executed, executed, run_tool
from tests.support.valgrind import both_tools, needs_valgrind, ours, theirs

__all__ = ["both_tools"]

Compile = Callable[..., Path]

MANY_WAYS = """
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static volatile unsigned long sink;
static jmp_buf there;
static void handler(int number) { (void)number; sink += 3; }
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
__attribute__((noinline)) static void copy(char *to, const char *from, unsigned long n) {
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}
__attribute__((noinline)) static int deep(int n) {
  if (n == 0) longjmp(there, 1);
  return deep(n - 1) + 1;
}
int main(void) {
  static char from[999], to[999];
  static int numbers[5000];
  signal(SIGUSR1, handler);
  for (int i = 0; i < 300; ++i) {
    copy(to, from, (unsigned long)(i % 7));
    if (i % 50 == 0) raise(SIGUSR1);
    if (setjmp(there) == 0) deep(i % 20);
    char *text = malloc((unsigned)i + 1);
    sink += (unsigned long)snprintf(text, (unsigned)i + 1, "%d %f", i, i / 3.0);
    free(text);
  }
  for (int i = 0; i < 5000; ++i) numbers[i] = (i * 7919) % 5003;
  qsort(numbers, 5000, sizeof *numbers, compare);
  printf("%d\\n", numbers[17]);
  return 0;
}
"""


def by_callgrind(both: Path, program: Path) -> Counter[int]:
    """By address in the program's file, how often callgrind saw the instruction."""
    out = both / "callgrind.out"
    theirs(both, "callgrind", f"--callgrind-out-file={out}", "--dump-instr=yes",
           "--compress-pos=no", "--compress-strings=no", "--skip-plt=no", str(program))  # fmt: skip
    found: Counter[int] = Counter()
    mine = is_call = False
    for line in out.read_text().splitlines():
        if line.startswith("ob="):
            mine = line == f"ob={program}"
        elif line.startswith("calls="):
            is_call = True
        elif line.startswith("0x"):
            address, *_, count = line.split()
            if mine and not is_call:
                found[int(address, 16)] += int(count)
            is_call = False
    return found


@needs_valgrind
def test_each_instruction_as_often_as_callgrind_saw_it(
    both_tools: Path, compile_c: Compile
) -> None:
    program = compile_c(MANY_WAYS, "-lm")
    folder = both_tools / "code"
    folder.mkdir()
    count = ours(both_tools, str(program), options=[f"--code-folder={folder}"])
    (process,) = executed(folder)
    assert process.by_context.total() == process.instructions == count["instructions"]
    mine: Counter[int] = Counter()
    for (file, address, _), times in process.by_instruction.items():
        if file == str(program):
            mine[address] += times
    expected = by_callgrind(both_tools, program)
    assert len(mine) > 100
    assert mine == expected


def in_phases(process: Executed, *phases: str) -> int:
    """In these phases, whatever the operation."""
    return sum(n for (names, _), n in process.by_context.items() if set(names) == set(phases))


PHASES = """
#include <stdlib.h>
void inner(long n); void outer(long n); void leave(long n);
__asm__(".text\\n"
        ".globl inner\\n.type inner, @function\\n"
        "inner:\\n mov %rdi, %rcx\\n1: dec %rcx\\n jnz 1b\\n ret\\n.size inner, .-inner\\n"
        ".globl outer\\n.type outer, @function\\n"
        "outer:\\n push %rdi\\n call inner\\n pop %rdi\\n call inner\\n nop\\n ret\\n"
        ".size outer, .-outer\\n"
        ".globl leave\\n.type leave, @function\\n"
        "leave:\\n nop\\n jmp inner\\n.size leave, .-leave\\n");
int main(void) {
  for (int i = 0; i < 5; ++i) outer(100);
  inner(10);
  leave(20);
  free(malloc(100));
  return 0;
}
"""


def test_phases_and_operations_have_counts_of_their_own(tmp_path: Path, compile_c: Compile) -> None:
    program = compile_c(PHASES, "-fno-builtin")
    (process,) = run_tool(
        tmp_path, program, events=["during out outer", "during in inner", "during out leave"]
    )
    # inner(n) is 2 + 2 n instructions; outer has 6 of its own, leave 2.
    assert in_phases(process, "out", "in") == 5 * 2 * 202 + 42
    assert in_phases(process, "in") == 22
    assert in_phases(process, "out") == 5 * 6 + 2
    operations = Counter[str]()
    for (_, operation), number in process.by_context.items():
        operations[operation] += number
    assert operations["malloc"] > 0
    assert operations["free"] > 0
    assert process.by_context.total() == process.instructions


GENERATED = """
#include <string.h>
#include <sys/mman.h>
/* mov $n, %eax; add $1, %ecx; ret: the same address, other bytes */
static const unsigned char codes[3][9] = {{0xb8, 1, 0, 0, 0, 0xff, 0xc1, 0xc3},
                                          {0xb8, 2, 0, 0, 0, 0xff, 0xc1, 0xc3},
                                          {0x66, 0x90, 0xff, 0xc1, 0xff, 0xc1, 0xc3}};
int main(void) {
  unsigned char *const at = mmap((void *)0x10000000, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  for (int round = 0; round < 2; ++round)
    for (int which = 0; which < 3; ++which) {
      munmap(at, 4096);
      mmap(at, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
           -1, 0);
      memcpy(at, codes[which], 9);
      for (int i = 0; i < 10 * (which + 1); ++i) ((void (*)(void))at)();
    }
  return 0;
}
"""


def test_code_that_is_written_over_is_told_apart(tmp_path: Path, compile_c: Compile) -> None:
    (process,) = run_tool(tmp_path, compile_c(GENERATED))
    found = {
        (address, content): times
        for (file, address, content), times in process.by_instruction.items()
        if file == "" and address >> 12 == 0x10000
    }
    at = 0x10000000
    assert found == {
        (at, bytes([0xB8, 1, 0, 0, 0])): 20,
        (at, bytes([0xB8, 2, 0, 0, 0])): 40,
        (at, bytes([0x66, 0x90])): 60,
        (at + 2, bytes([0xFF, 0xC1])): 60,
        (at + 4, bytes([0xFF, 0xC1])): 60,
        (at + 5, bytes([0xFF, 0xC1])): 60,
        (at + 6, bytes([0xC3])): 60,
        (at + 7, bytes([0xC3])): 60,
    }
    assert process.by_context.total() == process.instructions


PROCESSES = """
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
void work(long n);
__asm__(".text\\n.globl work\\n.type work, @function\\n"
        "work:\\n mov %rdi, %rcx\\n1: dec %rcx\\n jnz 1b\\n ret\\n.size work, .-work\\n");
static void *thread(void *unused) { (void)unused; work(1000); return 0; }
int main(int count, char **words) {
  if (count > 1) return 0;
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) pthread_create(&threads[i], 0, thread, 0);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], 0);
  const pid_t child = fork();
  if (child == 0) {
    work(50);
    execl(words[0], words[0], "again", (char *)0);
    _exit(1);
  }
  int status;
  waitpid(child, &status, 0);
  return status != 0;
}
"""


def test_threads_and_processes(tmp_path: Path, compile_c: Compile) -> None:
    program = compile_c(PROCESSES, "-pthread")
    processes = run_tool(tmp_path, program, events=["during work work"])
    assert sorted(in_phases(each, "work") for each in processes) == [0, 102, 3 * 2002]
    for each in processes:
        assert each.by_context.total() == each.instructions > 0


PHASE_FUNCTIONS = 8
SUBSETS = """
static void next(int mask, int n);
#define PHASE(n) __attribute__((noinline)) void f##n(int mask) { next(mask, n + 1); __asm__(""); }
PHASE(0) PHASE(1) PHASE(2) PHASE(3) PHASE(4) PHASE(5) PHASE(6) PHASE(7)
static void (*const phases[])(int) = {f0, f1, f2, f3, f4, f5, f6, f7};
static void next(int mask, int n) {
  while (n < 8 && !(mask >> n & 1)) ++n;
  if (n < 8) phases[n](mask);
}
int main(void) {
  for (int mask = 0; mask < 256; ++mask) next(mask, 0);
  return 0;
}
"""


def test_more_contexts_than_there_is_room_for(tmp_path: Path, compile_c: Compile) -> None:
    program = compile_c(SUBSETS)
    events = [f"during p{n} f{n}" for n in range(PHASE_FUNCTIONS)]
    (process,) = run_tool(tmp_path, program, events=events)
    assert len(process.description["contexts"]) == 64
    assert process.by_context.total() == process.instructions


def test_too_many_phases_are_refused(tmp_path: Path, compile_c: Compile) -> None:
    program = compile_c("int main(void) { return 0; }")
    with pytest.raises(subprocess.CalledProcessError):
        run_tool(tmp_path, program, events=[f"during p{n} main" for n in range(65)])


def test_a_program_that_dies_leaves_what_it_did(tmp_path: Path, compile_c: Compile) -> None:
    program = compile_c("int main(void) { *(volatile int *)0 = 1; return 0; }")
    with pytest.raises(subprocess.CalledProcessError):
        run_tool(tmp_path, program)
    (process,) = executed(tmp_path / "code")
    assert process.by_context.total() == process.instructions > 1000
    assert process.description["end"] == "exit"
