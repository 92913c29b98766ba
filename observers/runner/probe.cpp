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
//
// An allocator that the program or a library brings along is led to the manager where TARE_REDIRECT
// is set. Each has a line as a program starts, and so has a call of its
// that nothing can serve, which ends the process:
//
//   version "private" pid parent-pid image file prefix-of-its-functions functions "led"|"found"
//   version "refused" pid parent-pid image function

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "line.hpp"
#include "redirection.hpp"
#include "tare/platform/exported.hpp"
#include "tare/platform/maps.hpp"

namespace {

using tare::runner::kLineBytes;
using tare::runner::kPathBytes;
using tare::runner::Line;

constexpr unsigned long kProofVersion = 2;

constexpr const char* kFamily[] = {"calloc",         "realloc",       "free",
                                   "posix_memalign", "aligned_alloc", "malloc_usable_size"};

constinit char proof_path[kPathBytes] = {};
constinit tare::runner::Redirection redirection{};
constinit char servers[kLineBytes / 2] = {};  // the tab-separated fields after the executable

const char* LinkedFile(const void* address) {
  Dl_info information;
  if (address == nullptr || dladdr(address, &information) == 0 || information.dli_fname == nullptr)
    return "-";
  return information.dli_fname;
}

// Where calls of `symbol` end up. A program that is not position independent and takes the address
// of malloc has an undefined symbol whose value is an entry of its own jump table; behind it stands
// what the objects after the probe, which is loaded first, define.
const void* ServerOf(const char* symbol) {
  const void* const found = redirection.Followed(dlsym(RTLD_DEFAULT, symbol));
  Dl_info information;
  void* entry = nullptr;
  if (found == nullptr || dladdr1(found, &information, &entry, RTLD_DL_SYMENT) == 0) return found;
  const auto* const definition = static_cast<const ElfW(Sym)*>(entry);
  if (definition != nullptr && definition->st_shndx == SHN_UNDEF) return dlsym(RTLD_NEXT, symbol);
  return found;
}

void PutMappedFile(Line& line, const void* address) {
  tare::platform::MapsReader<kPathBytes> maps;
  for (tare::platform::MapsRow row; maps.Next(row);)
    if (row.Contains(reinterpret_cast<std::uintptr_t>(address))) {
      line << (*maps.Name() == '/' ? maps.Name() : "[anonymous]");
      return;
    }
  line << LinkedFile(address);
}

void ResolveServers() {
  Line line;
  PutMappedFile(line, ServerOf("malloc"));
  for (const char* const symbol : kFamily) line << '\t' << LinkedFile(ServerOf(symbol));
  memcpy(servers, line.Text(), line.Length() < sizeof servers ? line.Length() : sizeof servers - 1);
}

void Begin(Line& line, const char* kind) {
  line << kProofVersion << '\t' << kind << '\t' << static_cast<unsigned long>(getpid()) << '\t'
       << static_cast<unsigned long>(getppid()) << '\t' << tare::runner::Image();
}

void Report(const char* kind) {
  Line line;
  Begin(line, kind);
  line << '\t';
  tare::runner::PutExecutable(line);
  line << '\t';
  for (const char* at = servers; *at != '\0'; ++at) line << *at;
  line << '\n';
  line.AppendTo(proof_path);
}

// That of the environment: glibc's own is not there yet.
const char* ValueOf(const char* name, char** environment) {
  const std::size_t length = strlen(name);
  for (; *environment != nullptr; ++environment)
    if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
      return *environment + length + 1;
  return nullptr;
}

}  // namespace

namespace tare::runner {

void Refuse(const char* function) {
  Line line;
  Begin(line, "refused");
  line << '\t' << function << '\n';
  line.AppendTo(proof_path);
  for (;;) syscall(SYS_exit_group, 126);
}

void FailToAllocate() {
  using Throw = void();
  if (auto* const fail = reinterpret_cast<Throw*>(dlsym(RTLD_DEFAULT, "_ZSt17__throw_bad_allocv")))
    fail();
  abort();
}

}  // namespace tare::runner

// What the instrument leaves out of a program's count: the two entries, found by their names.
EXPORT void tare_probe_fork();
EXPORT void tare_probe_start(int, char**, char** environment);

void tare_probe_fork() { Report("fork"); }

// Linked to run before the constructors of all other objects, which may allocate.
__attribute__((constructor)) void tare_probe_start(int, char**, char** environment) {
#ifndef __GLIBC__  // musl gives constructors no arguments
  environment = environ;
#endif
  const char* const path = ValueOf("TARE_PROOF", environment);
  if (path == nullptr || strlen(path) >= sizeof proof_path) return;
  strcpy(proof_path, path);
  const char* const preloaded = ValueOf("LD_PRELOAD", environment);
  redirection.Begin(preloaded == nullptr ? "" : preloaded,
                    ValueOf("TARE_REDIRECT", environment) != nullptr);
  ResolveServers();
  redirection.Report(Begin, proof_path);
  Report("start");
  pthread_atfork(nullptr, nullptr, tare_probe_fork);
}
