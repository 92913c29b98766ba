"""Programs that the tests of the instrument share."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.valgrind import real_program, valgrind_environment

PRELUDE = """
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <unistd.h>
static void *keep(void *p) { __asm__ volatile("" : "+r"(p) : : "memory"); return p; }
"""
OPTIONS = ("-fno-builtin", "-pthread", "-ldl")
OWN_MALLOC = """
static char pool[1 << 26];
static size_t used;
__attribute__((noipa))
void *malloc(size_t n) { return pool + __atomic_fetch_add(&used, (n + 15) & ~15ul, 5); }
__attribute__((noipa)) void free(void *p) { (void)p; }
void *calloc(size_t n, size_t m) { return malloc(n * m); }
void *realloc(void *p, size_t n) { return p ? memcpy(malloc(n), p, n) : malloc(n); }
"""
REAL = {
    "true": ["/bin/true"],
    "gawk": ["gawk", "BEGIN{for(i=0;i<5000;i++)a[i%500]=i \"\"; print length(a)}"],
    "perl": ["perl", "-e", "my %h; $h{$_ % 700} .= $_ for 1..5000; print scalar keys %h"],
    "lua": ["lua5.4", "-e", "local t={} for i=1,5000 do t[i]=tostring(i) end print(#t)"],
    "bc": ["bc", "-q", "{input}/sum.bc"],
    "sqlite3": ["sqlite3", ":memory:", "create table t(a,b); with recursive c(x) as (select 1 union"
                " all select x+1 from c where x<900) insert into t select x,hex(x) from c;"
                " select sum(length(b)) from t;"],
    # Without -S it asks the machine how much memory is free, and takes another branch by that.
    "sort": ["sort", "-S", "4M", "{input}/lines"],
    "sed": ["sed", "s/1/one/g", "{input}/lines"],
    "python": ["python3", "-S", "-c", "print(sum(len(str(i)) for i in range(3000)))"],
    "ls": ["ls", "{input}/files"],
}  # fmt: skip


def write_inputs(folder: Path) -> None:
    """What the real programs read, as ``{input}/…``."""
    (folder / "lines").write_text("".join(f"{i * 7919 % 3000}\n" for i in range(3000)))
    (folder / "sum.bc").write_text("for (i = 0; i < 60; i++) a[i] = i ^ 20\na[59]\nquit\n")
    for name in (f"{i % 7}/{i}.{'pm' if i % 3 else 'txt'}" for i in range(300)):
        file = folder / "files" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def real_command(words: Sequence[str], both: Path) -> list[str]:
    """A real program on input that it finds under one path for all tools. It has run once: what is
    read for the first time on a day gets another time of access, with which Python computes."""
    environment = valgrind_environment(both)
    found = real_program(words[0], environment["PATH"])
    if found is None:
        pytest.skip(f"{words[0]} is not installed")
    write_inputs(both)
    command = [found, *(word.replace("{input}", str(both)) for word in words[1:])]
    subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True
    )
    return command
