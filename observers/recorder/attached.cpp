// libtare-attached.so: the recorder for a process that runs already. A debugger has the process
// load it and calls tare_attach, which leads all calls of the malloc family here, by the words by
// which loaded objects call it; tare_detach leads them back. Neither waits for a lock of the
// recorder's.
//
// What was born before is not known; its free is one of an unknown object. Objects that are loaded
// later, and copies of the functions' addresses elsewhere, are not led here. The library stays in
// the process, because a thread may be in it at any time; another recording has another copy of it.

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "begin.hpp"
#include "call_slots.hpp"
#include "operators_delete.hpp"
#include "process.hpp"
#include "tare/platform/exported.hpp"
#include "tare/platform/loaded_objects.hpp"

// The functions of recorder.cpp and mapping_calls.cpp, whatever their types.
#define EACH_OPERATOR_NEW(DEFINE, symbol) \
  DEFINE(symbol)                          \
  DEFINE(symbol##RKSt9nothrow_t)          \
  DEFINE(symbol##St11align_val_t)         \
  DEFINE(symbol##St11align_val_tRKSt9nothrow_t)
#define EACH_FUNCTION(DEFINE)      \
  DEFINE(malloc)                   \
  DEFINE(calloc)                   \
  DEFINE(realloc)                  \
  DEFINE(reallocarray)             \
  DEFINE(memalign)                 \
  DEFINE(aligned_alloc)            \
  DEFINE(posix_memalign)           \
  DEFINE(valloc)                   \
  DEFINE(pvalloc)                  \
  DEFINE(free)                     \
  DEFINE(cfree)                    \
  DEFINE(free_sized)               \
  DEFINE(free_aligned_sized)       \
  DEFINE(dlclose)                  \
  DEFINE(_exit)                    \
  DEFINE(mmap)                     \
  DEFINE(mmap64)                   \
  DEFINE(mremap)                   \
  DEFINE(munmap)                   \
  DEFINE(mprotect)                 \
  EACH_OPERATOR_NEW(DEFINE, _Znwm) \
  EACH_OPERATOR_NEW(DEFINE, _Znam) \
  TARE_EACH_OPERATOR_DELETE(DEFINE)
#define DECLARE(symbol, ...) \
  extern "C" const char own_##symbol[] __asm__(#symbol) __attribute__((visibility("hidden")));
EACH_FUNCTION(DECLARE)

namespace tare::recorder {
namespace {

constexpr char kOwnFile[] = "libtare-attached";
enum Fault : int { kNoAllocator = -1, kNoFiles = -2, kNoMemory = -3, kNoCalls = -4 };

struct Function {
  const char* symbol;
  const void* own;
  void* behind;  // nullptr: the process has none
};
#define ENTRY(symbol, ...) {#symbol, own_##symbol, nullptr},
constinit Function functions[] = {EACH_FUNCTION(ENTRY)};

// A word that was patched, to be restored while its object is still there.
struct Patched {
  void** place;
  void* before;
  const void* own;
  std::uintptr_t object;
  bool is_sealed;
};
constexpr std::size_t kMostPatched = 1 << 16;
constinit Patched* patched = nullptr;
constinit std::size_t patched_count = 0;
constinit std::atomic<bool> has_left = false;

Function* FunctionOf(const char* symbol) {
  for (Function& function : functions)
    if (function.behind != nullptr && strcmp(function.symbol, symbol) == 0) return &function;
  return nullptr;
}

bool IsOfOther(const void* address) {
  platform::LoadedObject object;
  return platform::FindLoadedObject(reinterpret_cast<std::uintptr_t>(address), object) &&
         strstr(object.name, kOwnFile) != nullptr;
}

// What to restore the word to; nullptr where it is to stay as it is: it leads to something else.
void* BeforePatch(const CallSlots& slots, const CallSlot& slot, const Function& function) {
  void* const now = __atomic_load_n(slot.place, __ATOMIC_RELAXED);
  if (now == function.behind) return now;
  if (slot.kind == SlotKind::kInData || now == nullptr) return nullptr;
  if (IsOfOther(now)) return function.behind;  // of a recording whose end nobody saw
  const bool is_to_be_found = slot.kind == SlotKind::kJump && slots.Holds(now);
  return is_to_be_found ? now : nullptr;
}

int PatchObject(dl_phdr_info* information, std::size_t, void*) {
  const CallSlots slots(*information);
  if (slots.Holds(own_malloc) || strstr(information->dlpi_name, "/ld-linux") != nullptr) return 0;
  slots.ForEach([&](const CallSlot& slot) {
    const Function* const function = FunctionOf(slot.symbol);
    if (function == nullptr || patched_count == kMostPatched) return;
    void* const before = BeforePatch(slots, slot, *function);
    platform::LoadedObject object;
    if (before == nullptr ||
        !platform::FindLoadedObject(reinterpret_cast<std::uintptr_t>(slot.place), object))
      return;
    const bool is_sealed = slots.IsSealed(slot.place);
    patched[patched_count] = {slot.place, before, function->own, object.start, is_sealed};
    if (CallSlots::Write(slot.place, const_cast<void*>(function->own), is_sealed)) ++patched_count;
  });
  return 0;
}

// May be called at any place of the program.
void Detach() {
  if (has_left.exchange(true)) return;
  for (std::size_t at = 0; at < patched_count; ++at) {
    const Patched& one = patched[at];
    platform::LoadedObject object;
    if (!platform::FindLoadedObject(reinterpret_cast<std::uintptr_t>(one.place), object) ||
        object.start != one.object || *one.place != one.own)
      continue;
    CallSlots::Write(one.place, one.before, one.is_sealed);
  }
  NoteEnd(kLeft);
  process->stage.store(Stage::kOff, std::memory_order_relaxed);
}

}  // namespace
}  // namespace tare::recorder

// How many words were patched; a Fault where none was.
SHOWN int tare_attach(const char* folder, std::size_t sample_bytes, int has_stacks,
                      const char* switch_path) {
  using namespace tare::recorder;
  for (Function& function : functions) function.behind = dlsym(RTLD_DEFAULT, function.symbol);
  if (FunctionOf("malloc") == nullptr || FunctionOf("free") == nullptr) return kNoAllocator;
  ResolveBehindLayers(setting.inner);
  BeginAs({folder, has_stacks != 0, sample_bytes, switch_path}, 0);
  if (process == nullptr || process->header == nullptr || !HasSwitch()) return kNoFiles;
  patched = static_cast<Patched*>(tare::MapPages(kMostPatched * sizeof *patched));
  if (patched == nullptr) return kNoMemory;
  leave = Detach;
  dl_iterate_phdr(PatchObject, nullptr);
  return patched_count != 0 ? static_cast<int>(patched_count) : kNoCalls;
}

SHOWN int tare_detach() {
  tare::recorder::Detach();
  return static_cast<int>(tare::recorder::patched_count);
}
