// SPDX-License-Identifier: GPL-2.0-or-later
// Starts the tool that lies beside this program, as Valgrind's own launcher does for a tool that is
// installed with Valgrind: the one for 32-bit programs or the one for 64-bit programs. The core
// starts it again, by its path, for each program that a counted program executes.
//
// It is static: what is preloaded into the counted program must not be loaded here, where it would
// give proof of serving a program that nobody asked about.

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __aarch64__
#define TOOL "tareinst-arm64-linux"
#else
#define TOOL "tareinst-amd64-linux"
#endif
#define TOOL_FOR_32_BITS "tareinst-x86-linux"

enum { PATH_BYTES = 4096, MOST_SCRIPTS = 4 };

static const char* program_in(char** argv) {
  for (++argv; *argv != NULL && **argv == '-'; ++argv) {
  }
  return *argv;
}

// Where a shell would find `name`; leaves it as it is where it would not.
static void find_on_path(const char* name, char path[PATH_BYTES]) {
  snprintf(path, PATH_BYTES, "%s", name);
  const char* folder = getenv("PATH");
  if (strchr(name, '/') != NULL || folder == NULL) return;
  for (size_t length; *folder != '\0'; folder += length + (folder[length] == ':')) {
    length = strcspn(folder, ":");
    char candidate[PATH_BYTES];
    const int written = snprintf(candidate, sizeof candidate, "%.*s/%s", (int)length, folder, name);
    if (written >= (int)sizeof candidate || access(candidate, X_OK) != 0) continue;
    strcpy(path, candidate);
    return;
  }
}

static ssize_t read_start(const char* path, char* start, size_t bytes) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return -1;
  const ssize_t got = read(file, start, bytes);
  close(file);
  return got;
}

// Of the program, or of the interpreter that a script's first line leads to. What cannot be read is
// the 64-bit tool's to complain about.
static int is_32_bit(const char* name) {
  char path[PATH_BYTES], start[PATH_BYTES];
  find_on_path(name, path);
  for (int scripts = 0; scripts <= MOST_SCRIPTS; ++scripts) {
    const ssize_t got = read_start(path, start, sizeof start - 1);
    if (got <= EI_CLASS) return 0;
    start[got] = '\0';
    if (memcmp(start, ELFMAG, SELFMAG) == 0) return start[EI_CLASS] == ELFCLASS32;
    if (start[0] != '#' || start[1] != '!') return 0;
    char* const interpreter = start + 2 + strspn(start + 2, " \t");
    interpreter[strcspn(interpreter, " \t\n")] = '\0';
    strcpy(path, interpreter);
  }
  return 0;
}

int main(int argc, char** argv) {
  (void)argc;
  const char* const program = program_in(argv);
  const char* const name = program != NULL && is_32_bit(program) ? TOOL_FOR_32_BITS : TOOL;
  char self[PATH_BYTES];
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
  snprintf(tool, sizeof tool, "%s/%s", folder, name);
  setenv("VALGRIND_LAUNCHER", self, 1);
  setenv("VALGRIND_LIB", folder, 1);
  execv(tool, argv);
  perror(tool);
  return 127;
}
