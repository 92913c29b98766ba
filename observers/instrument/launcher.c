// SPDX-License-Identifier: GPL-2.0-or-later
// Starts the tool that lies beside this program, as Valgrind's own launcher does for a tool that is
// installed with Valgrind. The core starts it again, by its path, for each program that a counted
// program executes.
//
// It is static: what is preloaded into the counted program must not be loaded here, where it would
// give proof of serving a program that nobody asked about.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOOL "tareinst-amd64-linux"

int main(int argc, char** argv) {
  (void)argc;
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - sizeof TOOL);
  if (length <= 0) {
    perror("tare-valgrind: /proc/self/exe");
    return 127;
  }
  self[length] = '\0';
  char folder[sizeof self];
  strcpy(folder, self);
  *strrchr(folder, '/') = '\0';
  char tool[sizeof folder + sizeof TOOL];
  snprintf(tool, sizeof tool, "%s/%s", folder, TOOL);
  setenv("VALGRIND_LAUNCHER", self, 1);
  setenv("VALGRIND_LIB", folder, 1);
  execv(tool, argv);
  perror(tool);
  return 127;
}
