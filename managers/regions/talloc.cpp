// talloc, the hierarchical allocator of Samba. It takes each object from malloc, and frees it by
// itself when the context goes that it hangs on; so original and emulation are the same. Here a
// context that is made to hold others (by talloc_new, or at the top) gets a region, in which lie
// all that hang on it, but for what has a region of its own. An object can be moved to another
// context and outlive the one that it was made in, so a region goes with the last of its objects.
//
// libtalloc's own calls of malloc, realloc and free come here, by way of its tables, see
// patched_calls.hpp. In front of what they get stands which region it is of.

#include <link.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <new>

#include "next.hpp"
#include "patched_calls.hpp"
#include "served_region.hpp"
#include "tare/platform/exported.hpp"

namespace tare::regions {
namespace {

struct Context {
  explicit Context(const Context* parent, const void* frame)
      : region(kTalloc, parent != nullptr ? &parent->region : nullptr, frame) {}

  ServedRegion region;
  std::atomic<std::size_t> objects = 0;  // that live
};

struct Head {
  std::uint32_t check;
  std::uint32_t bytes;
  Context* context;  // nullptr: malloc's
};
static_assert(sizeof(Head) == 16);

// What the call into libtalloc that is under way is for.
struct Call {
  const void* parent = nullptr;
  const void* frame = nullptr;
  bool makes_context = false;
  char* memory = nullptr;  // what it got
};

constinit thread_local Call call __attribute__((tls_model("initial-exec")));
constinit std::atomic<std::ptrdiff_t> header_bytes = 0;  // of talloc, before each object

std::uint32_t CheckOf(const Head* head) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(head) >> 4) ^ 0x7a110c7e;
}

bool IsServed() {
  return process.options.route == Route::kRegion || process.options.route == Route::kReap;
}

// The head of memory that libtalloc has, nullptr where it got it before the shims were there.
Head* HeadOf(void* memory) {
  Head* const head = static_cast<Head*>(memory) - 1;
  return head->check == CheckOf(head) ? head : nullptr;
}

// The region of an object of talloc: of what hangs on it too. nullptr in a talloc_pool.
Context* ContextOf(const void* object) {
  if (object == nullptr || header_bytes == 0) return nullptr;
  const char* const memory = static_cast<const char*>(object) - header_bytes;
  Head* const head = HeadOf(const_cast<char*>(memory));
  return head == nullptr ? nullptr : head->context;
}

Context* MakeContext(const Context* parent, const void* frame) {
  void* const memory = reap_malloc(process.own, sizeof(Context));
  return memory == nullptr ? nullptr : new (memory) Context(parent, frame);
}

void LeaveContext(Context* context, const void* frame) {
  if (--context->objects > 0) return;
  context->region.Destroy(frame);
  reap_free(process.own, context);
}

// In front of `memory`, whose first bytes are the head.
void* Put(Head* head, Context* context, std::size_t bytes) {
  *head = {CheckOf(head), static_cast<std::uint32_t>(bytes), context};
  call.memory = reinterpret_cast<char*>(head + 1);
  return call.memory;
}

void* AllocateIn(Context* context, std::size_t bytes) {
  if (bytes > UINT32_MAX - sizeof(Head)) return nullptr;
  const std::size_t whole = bytes + sizeof(Head);
  if (context == nullptr) {
    auto* const head = static_cast<Head*>(malloc(whole));
    return head == nullptr ? nullptr : Put(head, nullptr, bytes);
  }
  ++context->objects;
  auto* const head = static_cast<Head*>(context->region.Allocate(whole));
  if (head == nullptr) {
    LeaveContext(context, call.frame);
    return nullptr;
  }
  context->region.Watch(head, bytes, call.frame);
  return Put(head, context, bytes);
}

// What is left to malloc is counted in its sizes.
void Count(void* memory) {
  if (!process.options.statistics || memory == nullptr) return;
  const std::size_t bytes = malloc_usable_size(memory);
  KindCounts& counts = process.header->kinds[kTalloc];
  counts.objects.Add(1);
  counts.bytes.Add(bytes);
  process.header->all_objects.Add(1);
  process.header->all_bytes.Add(bytes);
}

void Discount(void* memory) {
  if (!process.options.statistics || memory == nullptr) return;
  const std::size_t bytes = malloc_usable_size(memory);
  KindCounts& counts = process.header->kinds[kTalloc];
  counts.objects.Subtract(1);
  counts.bytes.Subtract(bytes);
  process.header->all_objects.Subtract(1);
  process.header->all_bytes.Subtract(bytes);
}

void* MallocForTalloc(std::size_t bytes) {
  if (!IsServed()) {
    void* const memory = malloc(bytes);
    Count(memory);
    return memory;
  }
  Context* const parent = ContextOf(call.parent);
  return AllocateIn(call.makes_context ? MakeContext(parent, call.frame) : parent, bytes);
}

void FreeForTalloc(void* memory) {
  Head* const head = IsServed() && memory != nullptr ? HeadOf(memory) : nullptr;
  if (head == nullptr) {
    Discount(memory);
    return free(memory);
  }
  head->check = 0;
  if (head->context == nullptr) return free(head);
  Context* const context = head->context;
  context->region.Free(head, call.frame);
  LeaveContext(context, call.frame);
}

void* ReallocForTalloc(void* memory, std::size_t bytes) {
  if (memory == nullptr) return MallocForTalloc(bytes);
  Head* const head = IsServed() ? HeadOf(memory) : nullptr;
  if (head == nullptr) {
    Discount(memory);
    void* const resized = realloc(memory, bytes);
    Count(resized != nullptr ? resized : memory);
    return resized;
  }
  void* const moved = AllocateIn(head->context, bytes);
  if (moved == nullptr) return nullptr;
  memcpy(moved, memory, std::min<std::size_t>(bytes, head->bytes));
  FreeForTalloc(memory);
  return moved;
}

int ServeIn(dl_phdr_info* object, std::size_t, void*) {
  if (object->dlpi_name == nullptr || strstr(object->dlpi_name, "/libtalloc.so.2") == nullptr)
    return 0;
  const PatchedCall calls[] = {{"malloc", reinterpret_cast<void*>(MallocForTalloc)},
                               {"realloc", reinterpret_cast<void*>(ReallocForTalloc)},
                               {"free", reinterpret_cast<void*>(FreeForTalloc)}};
  if (CallPatcher(*object, calls).Patch() < std::size(calls)) {
    Message message;
    message << "tare: the calls of malloc, realloc and free in " << object->dlpi_name
            << " could not be replaced: its regions are not seen\n";
    message.Write(STDERR_FILENO);
  }
  return 1;
}

// ---- the functions that make objects ----

template <typename Original, typename... Arguments>
auto Make(bool makes_context, const void* parent, const void* frame, Arguments... arguments) {
  regions::Begin();
  if (makes_context && !IsServed()) CountRegion(kTalloc);
  const Call before = call;
  call = {parent, frame, makes_context, nullptr};
  auto const made = Original::Call(arguments...);
  if (header_bytes == 0 && IsServed() && made != nullptr && call.memory != nullptr)
    header_bytes = reinterpret_cast<char*>(made) - call.memory;
  call = before;
  return made;
}

using Plain = void*(const void*, std::size_t);
using Named = void*(const void*, std::size_t, const char*);
using Array = void*(const void*, std::size_t, unsigned, const char*);
using OriginalTalloc = Next<"_talloc", Plain>;
using OriginalPool = Next<"talloc_pool", Plain>;
using OriginalNamed = Next<"talloc_named_const", Named>;
using OriginalZero = Next<"_talloc_zero", Named>;
using OriginalArray = Next<"_talloc_array", Array>;
using OriginalZeroArray = Next<"_talloc_zero_array", Array>;
using OriginalMemdup =
    Next<"_talloc_memdup", void*(const void*, const void*, std::size_t, const char*)>;
using OriginalRealloc =
    Next<"_talloc_realloc", void*(const void*, void*, std::size_t, const char*)>;
using OriginalReallocArray =
    Next<"_talloc_realloc_array", void*(const void*, void*, std::size_t, unsigned, const char*)>;
using OriginalStrdup = Next<"talloc_strdup", char*(const void*, const char*)>;
using OriginalStrndup = Next<"talloc_strndup", char*(const void*, const char*, std::size_t)>;
using OriginalVasprintf = Next<"talloc_vasprintf", char*(const void*, const char*, va_list)>;

// talloc_new asks for an object of no bytes, to hang others on.
bool IsContext(const void* parent, std::size_t bytes) { return parent == nullptr || bytes == 0; }

}  // namespace

void ServeTalloc() { dl_iterate_phdr(ServeIn, nullptr); }

}  // namespace tare::regions

#define FRAME __builtin_frame_address(0)

EXPORT void* _talloc(const void* parent, std::size_t bytes) {
  using namespace tare::regions;
  return Make<OriginalTalloc>(false, parent, FRAME, parent, bytes);
}

EXPORT void* talloc_pool(const void* parent, std::size_t bytes) {
  using namespace tare::regions;
  return Make<OriginalPool>(false, parent, FRAME, parent, bytes);
}

EXPORT void* talloc_named_const(const void* parent, std::size_t bytes, const char* name) {
  using namespace tare::regions;
  return Make<OriginalNamed>(IsContext(parent, bytes), parent, FRAME, parent, bytes, name);
}

EXPORT void* _talloc_zero(const void* parent, std::size_t bytes, const char* name) {
  using namespace tare::regions;
  return Make<OriginalZero>(IsContext(parent, bytes), parent, FRAME, parent, bytes, name);
}

EXPORT void* _talloc_array(const void* parent, std::size_t bytes, unsigned count,
                           const char* name) {
  using namespace tare::regions;
  return Make<OriginalArray>(false, parent, FRAME, parent, bytes, count, name);
}

EXPORT void* _talloc_zero_array(const void* parent, std::size_t bytes, unsigned count,
                                const char* name) {
  using namespace tare::regions;
  return Make<OriginalZeroArray>(false, parent, FRAME, parent, bytes, count, name);
}

EXPORT void* _talloc_memdup(const void* parent, const void* from, std::size_t bytes,
                            const char* name) {
  using namespace tare::regions;
  return Make<OriginalMemdup>(false, parent, FRAME, parent, from, bytes, name);
}

EXPORT void* _talloc_realloc(const void* parent, void* object, std::size_t bytes,
                             const char* name) {
  using namespace tare::regions;
  return Make<OriginalRealloc>(false, parent, FRAME, parent, object, bytes, name);
}

EXPORT void* _talloc_realloc_array(const void* parent, void* object, std::size_t bytes,
                                   unsigned count, const char* name) {
  using namespace tare::regions;
  return Make<OriginalReallocArray>(false, parent, FRAME, parent, object, bytes, count, name);
}

EXPORT char* talloc_strdup(const void* parent, const char* text) {
  using namespace tare::regions;
  return Make<OriginalStrdup>(false, parent, FRAME, parent, text);
}

EXPORT char* talloc_strndup(const void* parent, const char* text, std::size_t bytes) {
  using namespace tare::regions;
  return Make<OriginalStrndup>(false, parent, FRAME, parent, text, bytes);
}

EXPORT char* talloc_vasprintf(const void* parent, const char* format, va_list arguments) {
  using namespace tare::regions;
  return Make<OriginalVasprintf>(false, parent, FRAME, parent, format, arguments);
}

EXPORT char* talloc_asprintf(const void* parent, const char* format, ...) {
  using namespace tare::regions;
  va_list arguments;
  va_start(arguments, format);
  char* const text = Make<OriginalVasprintf>(false, parent, FRAME, parent, format, arguments);
  va_end(arguments);
  return text;
}

// An object that is opened with RTLD_DEEPBIND, as ldb does with its modules, would go past the
// functions above. The call below is a jump: the C library looks at who called.
EXPORT void* dlopen(const char* path, int mode) {
  using namespace tare::regions;
  return tare::Next<"dlopen", void*(const char*, int)>::Call(path, mode & ~RTLD_DEEPBIND);
}
