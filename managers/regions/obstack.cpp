// Obstacks of the C library, and of gnulib, whose copies have the same names. In gnulib's the
// numbers are of 64 bits where the C library has 32, at the same places. A program bumps the
// pointer of an obstack itself, in macros, and comes here only when the chunk is full. So emulation
// and reaps give it a chunk for each object, with room for nothing else: each object is then one of
// malloc, or of the reap. An object that grows piece by piece is given some room, where smaller
// ones may follow it. A plain region gives larger chunks.

#include <malloc.h>
#include <obstack.h>

#include <cstddef>
#include <cstring>
#include <new>

#include "next.hpp"
#include "served_region.hpp"
#include "tare/platform/exported.hpp"

#undef obstack_free

namespace tare::regions {
namespace {

// The numbers go on with 64 bits, which are right for both.
using OriginalBegin = Next<"_obstack_begin", int(obstack*, std::size_t, std::size_t,
                                                 void* (*)(long), void (*)(void*))>;
using OriginalBeginWithArgument =
    Next<"_obstack_begin_1", int(obstack*, std::size_t, std::size_t, void* (*)(void*, long),
                                 void (*)(void*, void*), void*)>;
using OriginalNewChunk = Next<"_obstack_newchunk", void(obstack*, std::size_t)>;
using OriginalFreeFrom = Next<"obstack_free", void(obstack*, void*)>;

constexpr std::size_t kHead = 16;
constexpr std::size_t kPlainChunk = 32 << 10;
constexpr int kUsualAlignment = 16;
static_assert(offsetof(_obstack_chunk, contents) == kHead);
static_assert(offsetof(obstack, chunkfun) == offsetof(obstack, alignment_mask) + 8);

struct Stack {
  Stack(int alignment, const void* frame)
      : region(kObstack, nullptr, frame),
        is_quick(process.is_quick && process.options.route == Route::kReap &&
                 alignment <= static_cast<int>(kHead)) {}

  alignas(kHead) _obstack_chunk base = {};  // below all chunks; it has no room
  ServedRegion region;
  bool is_quick;
  PointerList<OwnMemory> chunks;  // of emulation, which must not read them as they are freed
};

// Its place in an obstack is one that no macro looks at.
Stack& StackOf(obstack* of) { return *static_cast<Stack*>(of->extra_arg); }

bool IsPlain() { return process.options.route == Route::kRegion; }
bool IsEmulation() { return process.options.route == Route::kEmulation; }

char* FirstPlace(const obstack* of, _obstack_chunk* chunk) {
  char* const contents = reinterpret_cast<char*>(chunk) + kHead;
  return contents +
         (-reinterpret_cast<std::uintptr_t>(contents) & static_cast<unsigned>(of->alignment_mask));
}

// Goes on behind what `chunk` holds, up to `position`.
void Enter(obstack* of, _obstack_chunk* chunk, char* position, char* limit) {
  of->chunk = chunk;
  of->object_base = of->next_free = position;
  of->chunk_limit = limit;
}

void EnterBase(obstack* of, Stack& stack) {
  stack.base.limit = FirstPlace(of, &stack.base);
  Enter(of, &stack.base, stack.base.limit, stack.base.limit);
}

_obstack_chunk* TakeChunk(Stack& stack, std::size_t bytes, std::size_t asked, const void* frame) {
  auto* const chunk = static_cast<_obstack_chunk*>(stack.region.Allocate(bytes));
  if (chunk == nullptr || (IsEmulation() && !stack.chunks.Append(chunk)))
    obstack_alloc_failed_handler();
  stack.region.Watch(chunk, asked, frame);
  return chunk;
}

void GiveChunk(Stack& stack, _obstack_chunk* chunk, const void* frame) {
  if (IsPlain() || chunk == &stack.base) return;
  if (IsEmulation() && !stack.chunks.Remove(chunk)) return;
  stack.region.Free(chunk, frame);
}

// For obstack_printf, which makes chunks inside of the C library.
_obstack_chunk* TakeForPrintf(void* stack, long bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  return TakeChunk(*static_cast<Stack*>(stack), size, size, __builtin_frame_address(0));
}
void GiveForPrintf(void* stack, _obstack_chunk* chunk) {
  GiveChunk(*static_cast<Stack*>(stack), chunk, __builtin_frame_address(0));
}

int Make(obstack* of, int size, int alignment, const void* frame) {
  void* const memory = reap_malloc(process.own, sizeof(Stack));
  if (memory == nullptr) obstack_alloc_failed_handler();
  of->extra_arg = new (memory) Stack(alignment, frame);
  of->chunkfun = TakeForPrintf;
  of->freefun = GiveForPrintf;
  of->use_extra_arg = 1;
  of->maybe_empty_object = of->alloc_failed = 0;
  of->chunk_size = size;
  const std::uint64_t mask =
      static_cast<unsigned>(alignment == 0 ? kUsualAlignment : alignment) - 1;
  memcpy(&of->alignment_mask, &mask, sizeof mask);
  EnterBase(of, StackOf(of));
  return 1;
}

// More room for the object that is being made, which moves.
void NewChunk(obstack* of, std::size_t more, const void* frame) {
  Stack& stack = StackOf(of);
  const auto begun = static_cast<std::size_t>(of->next_free - of->object_base);
  const std::size_t slack = begun == 0 ? 0 : begun / 2 + 64;
  const auto padding = static_cast<unsigned>(of->alignment_mask) & ~(kHead - 1);
  std::size_t bytes = kHead + padding + begun + more + slack;
  if (IsPlain()) bytes = std::max(bytes, kPlainChunk);
  _obstack_chunk* const chunk = TakeChunk(stack, bytes, begun + more, frame);
  chunk->limit = reinterpret_cast<char*>(chunk) + bytes;
  char* const position = FirstPlace(of, chunk);
  memcpy(position, of->object_base, begun);
  _obstack_chunk* const before = of->chunk;
  chunk->prev = before;
  const bool was_alone = before != &stack.base && of->object_base == FirstPlace(of, before);
  if (was_alone && !of->maybe_empty_object) {
    chunk->prev = before->prev;
    GiveChunk(stack, before, frame);
  }
  Enter(of, chunk, position, chunk->limit);
  of->next_free += begun;
  of->maybe_empty_object = 0;
}

// A new object of a reap, which most calls are for. False where there is more to do than to bump.
bool NewObject(obstack* of, std::size_t bytes) {
  if (!process.is_quick) return false;
  const bool is_begun = of->next_free != of->object_base;
  const bool is_chunk_empty = of->object_base == of->chunk->contents;
  Stack& stack = StackOf(of);
  if (!stack.is_quick || is_begun || is_chunk_empty || of->maybe_empty_object != 0) return false;
  auto* const chunk = static_cast<_obstack_chunk*>(stack.region.TryBumpInReap(kHead + bytes));
  if (chunk == nullptr) return false;
  chunk->limit = chunk->contents + bytes;
  chunk->prev = of->chunk;
  Enter(of, chunk, chunk->contents, chunk->limit);
  return true;
}

bool Holds(const void* chunk, const char* end, const void* object) {
  return chunk < object && object <= end;
}

// Chunks of a plain region that are left stay in it until its end.
void FreeFrom(obstack* of, Stack& stack, char* object, const void* frame) {
  _obstack_chunk* chunk = of->chunk;
  bool is_found = false;
  while (!is_found && chunk != &stack.base) {
    is_found = Holds(chunk, chunk->limit, object);
    if (is_found && IsPlain()) return Enter(of, chunk, object, chunk->limit);
    if (is_found && object != FirstPlace(of, chunk)) return Enter(of, chunk, object, object);
    _obstack_chunk* const below = chunk->prev;
    GiveChunk(stack, chunk, frame);
    chunk = below;
  }
  Enter(of, chunk, chunk->limit, chunk->limit);
}

// The chunks of emulation are not looked into.
void FreeFromList(obstack* of, Stack& stack, char* object, const void* frame) {
  const auto end_of = [](void* chunk) {
    return static_cast<char*>(chunk) + malloc_usable_size(chunk);
  };
  bool is_found = false;
  while (!is_found && stack.chunks.Count() > 0) {
    auto* const chunk = static_cast<_obstack_chunk*>(stack.chunks.Newest());
    is_found = Holds(chunk, end_of(chunk), object);
    if (is_found && object != FirstPlace(of, chunk)) return Enter(of, chunk, object, object);
    stack.chunks.RemoveNewest();
    stack.region.Free(chunk, frame);
  }
  if (stack.chunks.Count() == 0) return EnterBase(of, stack);
  auto* const below = static_cast<_obstack_chunk*>(stack.chunks.Newest());
  Enter(of, below, end_of(below), end_of(below));
}

void End(obstack* of, Stack& stack, const void* frame) {
  stack.region.Destroy(frame);
  stack.chunks.Clear();
  reap_free(process.own, &stack);
  of->chunk = nullptr;
  of->extra_arg = nullptr;
}

std::size_t Wide(int number) { return static_cast<unsigned>(number); }

bool IsOriginal() {
  regions::Begin();
  return process.options.route == Route::kOriginal;
}

__attribute__((noinline)) void MoreRoom(obstack* of, int bytes, const void* frame) {
  if (IsOriginal()) return OriginalNewChunk::Call(of, Wide(bytes));
  NewChunk(of, static_cast<std::size_t>(bytes), frame);
}

}  // namespace
}  // namespace tare::regions

#define FRAME __builtin_frame_address(0)

EXPORT int _obstack_begin(obstack* of, int size, int alignment, void* (*take)(long),
                          void (*give)(void*)) {
  using namespace tare::regions;
  if (!IsOriginal()) return Make(of, size, alignment, FRAME);
  CountRegion(kObstack);
  return OriginalBegin::Call(of, Wide(size), Wide(alignment), take, give);
}

EXPORT int _obstack_begin_1(obstack* of, int size, int alignment, void* (*take)(void*, long),
                            void (*give)(void*, void*), void* argument) {
  using namespace tare::regions;
  if (!IsOriginal()) return Make(of, size, alignment, FRAME);
  CountRegion(kObstack);
  return OriginalBeginWithArgument::Call(of, Wide(size), Wide(alignment), take, give, argument);
}

EXPORT void _obstack_newchunk(obstack* of, int bytes) {
  using namespace tare::regions;
  if (!NewObject(of, static_cast<std::size_t>(bytes))) MoreRoom(of, bytes, FRAME);
}

EXPORT void obstack_free(obstack* of, void* object) {
  using namespace tare::regions;
  if (IsOriginal()) return OriginalFreeFrom::Call(of, object);
  if (of->extra_arg == nullptr) return;
  Stack& stack = StackOf(of);
  if (object == nullptr) return End(of, stack, FRAME);
  const auto free_from = IsEmulation() ? FreeFromList : FreeFrom;
  free_from(of, stack, static_cast<char*>(object), FRAME);
}

// Programs that were built against gnulib call it by this name.
EXPORT void _obstack_free(obstack* of, void* object) __attribute__((alias("obstack_free")));
