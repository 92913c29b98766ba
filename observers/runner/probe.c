// tare-probe: preloaded before a manager, it makes every process of a run say which object really
// serves its memory.
//
// One line goes to the file named by TARE_PROOF for each program started ("start") and each process
// forked ("fork"), in a single appending write, fields separated by tabs:
//
//   version kind pid parent-pid image executable malloc calloc realloc free posix_memalign
//   aligned_alloc malloc_usable_size
//
// The image is the address of the random bytes that the kernel gave to this image of the program: a
// process that executes the same file again has another. A field after the executable names the
// file that the symbol resolves to, as the dynamic linker has it, or "-". The first is checked
// against the process's own maps: when the maps show another file at that address, that file is
// the one named.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

enum { PROOF_VERSION = 2, LINE_BYTES = 16384, PATH_BYTES = 4096 };

static const char* const family[] = {"calloc",         "realloc",       "free",
                                     "posix_memalign", "aligned_alloc", "malloc_usable_size"};

static char proof_path[PATH_BYTES];
static char servers[LINE_BYTES / 2];  // the tab-separated fields after the executable

struct line {
  char text[LINE_BYTES];
  size_t used;
};

static void append(struct line* line, const char* text) {
  for (; *text != '\0' && line->used + 1 < sizeof line->text; ++text)
    line->text[line->used++] = (*text == '\t' || *text == '\n') ? '?' : *text;
}

static void append_separator(struct line* line, char separator) {
  if (line->used + 1 < sizeof line->text) line->text[line->used++] = separator;
}

static void append_number(struct line* line, unsigned long number) {
  char digits[24];
  char* at = digits + sizeof digits;
  *--at = '\0';
  do *--at = (char)('0' + number % 10);
  while ((number /= 10) > 0);
  append(line, at);
}

static void append_executable(struct line* line) {
  char path[PATH_BYTES];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  path[length > 0 ? length : 0] = '\0';
  append(line, path);
}

// The file mapped at `address` by /proc/self/maps, read in blocks so that no heap is needed.
static const char* mapped_file(uintptr_t address, char* row, size_t row_bytes) {
  const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return NULL;
  char block[4096];
  size_t used = 0;
  const char* found = NULL;
  ssize_t count;
  while (found == NULL && (count = read(fd, block, sizeof block)) > 0) {
    for (ssize_t i = 0; i < count && found == NULL; ++i) {
      if (block[i] != '\n') {
        if (used + 1 < row_bytes) row[used++] = block[i];
        continue;
      }
      row[used] = '\0';
      used = 0;
      char* end;
      const uintptr_t low = (uintptr_t)strtoull(row, &end, 16);
      const uintptr_t high = *end == '-' ? (uintptr_t)strtoull(end + 1, &end, 16) : 0;
      if (address < low || address >= high) continue;
      char* const path = strchr(end, '/');
      found = path != NULL ? path : "[anonymous]";
    }
  }
  close(fd);
  return found;
}

static const char* linked_file(const void* address) {
  Dl_info information;
  if (address == NULL || dladdr(address, &information) == 0 || information.dli_fname == NULL)
    return "-";
  return information.dli_fname;
}

// Where calls of `symbol` end up. A program that is not position independent and takes the address
// of malloc has an undefined symbol whose value is an entry of its own jump table; behind it stands
// what the objects after the probe, which is loaded first, define.
static const void* server_of(const char* symbol) {
  const void* const found = dlsym(RTLD_DEFAULT, symbol);
  Dl_info information;
  void* entry = NULL;
  if (found == NULL || dladdr1(found, &information, &entry, RTLD_DL_SYMENT) == 0) return found;
  const ElfW(Sym)* const definition = entry;
  if (definition != NULL && definition->st_shndx == SHN_UNDEF) return dlsym(RTLD_NEXT, symbol);
  return found;
}

static void resolve_servers(void) {
  struct line line = {.used = 0};
  char row[PATH_BYTES + 128];
  const void* const address = server_of("malloc");
  const char* const mapped = mapped_file((uintptr_t)address, row, sizeof row);
  append(&line, mapped != NULL ? mapped : linked_file(address));
  for (size_t i = 0; i < sizeof family / sizeof *family; ++i) {
    append_separator(&line, '\t');
    append(&line, linked_file(server_of(family[i])));
  }
  const size_t kept = line.used < sizeof servers ? line.used : sizeof servers - 1;
  memcpy(servers, line.text, kept);
  servers[kept] = '\0';
}

static void report(const char* kind) {
  struct line line = {.used = 0};
  append_number(&line, PROOF_VERSION);
  append_separator(&line, '\t');
  append(&line, kind);
  append_separator(&line, '\t');
  append_number(&line, (unsigned long)getpid());
  append_separator(&line, '\t');
  append_number(&line, (unsigned long)getppid());
  append_separator(&line, '\t');
  append_number(&line, getauxval(AT_RANDOM));
  append_separator(&line, '\t');
  append_executable(&line);
  append_separator(&line, '\t');
  for (const char* at = servers; *at != '\0'; ++at) append_separator(&line, *at);
  append_separator(&line, '\n');
  const int fd = open(proof_path, O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd < 0) return;
  // A proof that cannot be written is a proof that is missing, which the runner notices.
  const ssize_t ignored = write(fd, line.text, line.used);
  (void)ignored;
  close(fd);
}

// What the instrument leaves out of a program's count: the two entries, found by their names.
__attribute__((visibility("default"))) void tare_probe_fork(void);
__attribute__((visibility("default"))) void tare_probe_start(void);

void tare_probe_fork(void) { report("fork"); }

__attribute__((constructor)) void tare_probe_start(void) {
  const char* const path = getenv("TARE_PROOF");
  if (path == NULL || strlen(path) >= sizeof proof_path) return;
  strcpy(proof_path, path);
  resolve_servers();
  report("start");
  pthread_atfork(NULL, NULL, tare_probe_fork);
}
