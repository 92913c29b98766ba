"""What wheels bring for systems whose C library is older than 2.35, tried where it is newer."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.support import ROOT

OLDER = ROOT / "platform" / "older"
COMPARES = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/single_threaded.h>

int tare_listed_object(void* address, struct dl_find_object* found);

static int same(void* address) {
  struct dl_find_object ours, theirs;
  if (tare_listed_object(address, &ours) != (_dl_find_object)(address, &theirs)) return 0;
  return ours.dlfo_eh_frame == theirs.dlfo_eh_frame &&
         ours.dlfo_link_map->l_addr == theirs.dlfo_link_map->l_addr &&
         strcmp(ours.dlfo_link_map->l_name, theirs.dlfo_link_map->l_name) == 0 &&
         ours.dlfo_map_start <= address && address < ours.dlfo_map_end;
}

static void* nothing(void* data) { return data; }

int main(void) {
  struct dl_find_object found;
  double (*volatile function)(double) = cos;
  printf("%d %d ", same((void*)main), same((void*)function));
  printf("%d ", tare_listed_object((void*)8, &found));
  printf("%d ", __libc_single_threaded != 0);
  pthread_t thread;
  pthread_create(&thread, NULL, nothing, NULL);
  printf("%d\\n", __libc_single_threaded != 0);
  return pthread_join(thread, NULL);
}
"""


def test_objects_and_threads_are_told_as_by_the_library(compile_c: Callable[..., Path]) -> None:
    source = str(OLDER / "symbols" / "find_object.c")
    program = compile_c(COMPARES, "-isystem", str(OLDER / "include"), source, "-lm")
    done = subprocess.run([program], capture_output=True, text=True, check=True)
    assert done.stdout == "1 1 -1 1 0\n"
