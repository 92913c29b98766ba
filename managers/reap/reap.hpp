// One reap, as one thread at a time uses it.
//
// Memory is divided into blocks without a gap, up to where the reap bumps, so that a walk over a
// chunk finds every block. Objects are bumped from a range, which is the end of the newest chunk
// or, once objects were freed one by one, a hole between live ones.

#pragma once

#include <utility>

#include "free_lists.hpp"
#include "owned_chunks.hpp"

namespace tare::reap {

inline constexpr std::size_t kHole = 1024;  // what is worth bumping in
inline constexpr std::size_t kSweepLeast = 16 << 10;
inline constexpr std::size_t kSweepShare = 4;  // sweep when a quarter was freed since the last time
inline constexpr unsigned kDeferred = 8;
inline constexpr std::size_t kManyBytes = 128 << 10;  // live ones, with which frees are deferred
inline constexpr std::size_t kFewBytes = kManyBytes / 2;  // with which they no longer are
inline constexpr std::size_t kNewBytes = 4 << 10;
inline constexpr std::size_t kTouchShare = 32;  // of fresh memory, populate so much of what is used

[[noreturn]] void ReportDoubleFree(const void* object);

inline Chunk*& ChunkOfLarge(void* object) { return static_cast<Chunk**>(object)[-2]; }

// A reap with lists and no options.
enum class PlainHeap : std::uint8_t { kNo, kFrees, kDefers };

// What each allocation and free touches.
struct BumpRange : ::reap {
  char* range_end = nullptr;
  std::uintptr_t origin = 0;  // the position less the bytes in blocks
  // Bytes put into the lists, and taken from them: two sums, so that no call waits for the sum of
  // the one before it.
  std::size_t freed = 0;
  std::size_t taken = 0;
  std::size_t few_bytes = 0;  // that are live: then what is deferred is freed
  std::size_t look_at = 0;    // before so many are freed, more than few_bytes are live
  std::size_t freed_at_sweep = 0;
  Chunk* range_chunk = nullptr;  // that the range is the end of, or nullptr when in a hole
};

struct BumpMode {
  bool may_inline = false;
  bool has_lists = false;
  PlainHeap plain_heap = PlainHeap::kNo;
  unsigned options = 0;
};

struct Reap : BumpRange, OwnedChunks, BumpMode, Relatives {
  static constexpr unsigned kOptions = REAP_SHARED | REAP_HARDENED;
  static constexpr std::size_t kStart = sizeof(Chunk);

  FreeLists lists;            // valid if has_lists
  void* deferred[kDeferred];  // valid with kDefers: freed, but not yet in the lists
  unsigned next_deferred;

  static Reap* Create(unsigned options) {
    auto* const reap = CreateReap<Reap>(options);  // all but the lists
    if (reap == nullptr) return nullptr;
    reap->may_inline = options == 0;
    reap->UseFirstChunk();
    return reap;
  }

  std::size_t BlockBytes() const {
    return reinterpret_cast<std::uintptr_t>(reap_position) - origin;
  }

  bool IsPlainHeap() const { return plain_heap != PlainHeap::kNo; }

  // As reap_malloc does it inlined; nullptr when it cannot bump.
  void* TryBump(std::size_t size) {
    std::size_t block;
    if (__builtin_add_overflow(size, kWord + kUnit - 1, &block)) return nullptr;
    block &= ~(kUnit - 1);
    if (block > static_cast<std::size_t>(reap_limit - reap_position)) return nullptr;
    char* const object = Bump(block);
    WordOf(object) = static_cast<Word>(size);
    return object;
  }

  // What was freed is used again; nullptr if none of the size was. Only with lists.
  void* TryLists(std::size_t size) {
    if (size > FreeLists::kLargestExact - kWord) return nullptr;
    const std::size_t block = BlockFor(size);
    char* const object = lists.TakeExact(block);
    if (object == nullptr) return nullptr;
    taken += block;
    if (FreeBytes() == 0) [[unlikely]]
      SetLimit();
    WordOf(object) = static_cast<Word>(size);
    return object;
  }

  void* Allocate(std::size_t size) {
    if (size > kLargestBlock - kWord) return AllocateLarge(size, kUnit);
    if (has_lists)
      if (void* const object = TryLists(size)) return object;
    const std::size_t block = BlockFor(size);
    char* object = FreeBytes() == 0 ? nullptr : lists.TakeCoarse(block);
    if (object != nullptr) {
      taken += block;
    } else {
      if (!RoomFor(block) && !MakeRoom(block)) return nullptr;
      object = Bump(block);
    }
    SetLimit();
    WordOf(object) = static_cast<Word>(size);
    return object;
  }

  void* AllocateAligned(std::size_t alignment, std::size_t size) {
    if (alignment <= kUnit) return Allocate(size);
    if (alignment > kLargestBlock / 2 || size > kLargestBlock / 2)
      return AllocateLarge(size, alignment);
    const std::size_t block = BlockFor(size);
    if (!RoomFor(block + alignment) && !MakeRoom(block + alignment)) return nullptr;
    char* const object = AlignUp(reap_position, alignment);
    Skip(object);
    Bump(block);
    SetLimit();
    WordOf(object) = static_cast<Word>(size);
    return object;
  }

  void FreeNow(void* object) {
    if (!has_lists) [[unlikely]]
      return FreeUnusual(static_cast<char*>(object));
    FreeIntoLists(object);
  }

  // Of a plain heap. Calls of other functions are the last thing done here, so that what is usual
  // needs no stack.
  void FreeOfPlainHeap(void* object) {
    if (plain_heap == PlainHeap::kDefers && !IsNew(object)) object = Defer(object);
    if (object != nullptr) FreeIntoLists(object);
  }

  __attribute__((noinline)) void FreeDeferred() {
    if (plain_heap != PlainHeap::kDefers) return;
    plain_heap = PlainHeap::kFrees;
    few_bytes = 0;
    for (void* const object : deferred)
      if (object != nullptr) FreeNow(object);
  }

  // Whether `object` could be given `size` bytes where it is.
  bool Resize(void* pointer, std::size_t size) {
    auto* const object = static_cast<char*>(pointer);
    const Word word = WordOf(object);
    if (word & kLarge) return ResizeLarge(object, size);
    if (size > kLargestBlock - kWord) return false;
    const std::size_t old = BlockFor(word);
    const std::size_t block = BlockFor(size);
    if (object + old == reap_position) {
      if (block > static_cast<std::size_t>(range_end - object)) return false;
      reap_position = object;
      if (!RoomFor(block)) Touch(block);
      Bump(block);
      SetLimit();
      look_at = 0;
    } else if (block > old) {
      return false;
    } else if (block < old) {
      if (!has_lists) return true;  // too little to end the bumping for
      AddFree(object + block, old - block);
      reap_limit = reap_position;
    }
    WordOf(object) = static_cast<Word>(size);
    return true;
  }

  static std::size_t UsableSize(void* object) {
    const Word word = WordOf(object);
    if ((word & kLarge) == 0) return BlockFor(word) - kWord;
    Chunk* const chunk = ChunkOfLarge(object);
    return static_cast<std::size_t>(chunk->End() - static_cast<char*>(object));
  }

  // Frees every object. The first chunk stays.
  __attribute__((noinline)) void StartOver() {
    FreeAllButFirst();
    has_lists = false;
    plain_heap = PlainHeap::kNo;
    few_bytes = 0;
    freed = taken = look_at = freed_at_sweep = 0;
    UseFirstChunk();
  }

  // Gives all memory back, this reap included.
  void End() {
    FreeAllButFirst();
    root = nullptr;
    PutChunk(chunks);
  }

  void AddTo(reap_statistics& statistics) const {
    statistics.allocated += LiveBytes();
    statistics.free += FreeBytes();
    OwnedChunks::AddTo(statistics);
  }

 private:
  // Before a large object: its chunk, padding, and the word.
  static constexpr std::size_t kLargeStart = RoundUp(sizeof(Chunk), kUnit) + kUnit;

  static char* FirstObjectIn(Chunk* chunk) {
    return AlignUp(chunk->Base() + sizeof(Chunk) + kWord, kUnit);
  }
  char* FirstObject() { return AlignUp(reinterpret_cast<char*>(this + 1) + kWord, kUnit); }

  std::size_t FreeBytes() const { return freed - taken; }
  std::size_t LiveBytes() const { return BlockBytes() - FreeBytes(); }

  bool IsNew(const void* object) const {
    return static_cast<std::size_t>(reap_position - static_cast<const char*>(object)) < kNewBytes;
  }

  void FreeIntoLists(void* pointer) {
    auto* const object = static_cast<char*>(pointer);
    const Word word = WordOf(object);
    if (word > FreeLists::kLargestExact - kWord) [[unlikely]]
      return FreeUnusual(object);
    const std::size_t block = BlockFor(word);
    if (object + block == reap_position) [[unlikely]]
      return TakeBack(object);
    lists.PutExact(object, block);
    freed += block;
    AfterFree();
  }

  // Few objects are in the cache anyhow. A large one would keep much memory.
  void MayDefer() {
    if (plain_heap != PlainHeap::kFrees || large != nullptr || LiveBytes() < kManyBytes) return;
    plain_heap = PlainHeap::kDefers;
    few_bytes = kFewBytes;
    look_at = 0;
    next_deferred = 0;
    std::fill(std::begin(deferred), std::end(deferred), nullptr);
  }

  // The size of an object is in its memory, which may not be in a cache. It is fetched while the
  // program goes on. Returns what was deferred long enough.
  void* Defer(void* object) {
    __builtin_prefetch(&WordOf(object), 1);
    return std::exchange(deferred[next_deferred++ % kDeferred], object);
  }

  // Where the range ends for now: fresh memory is taken into use step by step.
  char* BumpEnd() const {
    return range_chunk == nullptr ? range_end : std::min(range_end, range_chunk->touched);
  }

  // While nothing freed waits to be used again, reap_malloc is inlined.
  void SetLimit() { reap_limit = may_inline && FreeBytes() == 0 ? BumpEnd() : reap_position; }

  bool RoomFor(std::size_t block) const {
    return block <= static_cast<std::size_t>(BumpEnd() - reap_position);
  }

  char* Bump(std::size_t block) {
    char* const object = reap_position;
    reap_position += block;
    return object;
  }

  void AddFree(char* object, std::size_t block) {
    if (!has_lists) [[unlikely]]
      StartLists();
    lists.Put(object, block);
    freed += block;
  }

  __attribute__((noinline)) void StartLists() {
    has_lists = true;
    plain_heap = options == 0 ? PlainHeap::kFrees : PlainHeap::kNo;
    lists.Clear();
    MayDefer();
  }

  // While objects are in the lists, nothing is bumped inline.
  void AfterFree() {
    reap_limit = reap_position;
    if (freed >= look_at) [[unlikely]]
      LookAtLiveBytes();
  }

  __attribute__((noinline)) void LookAtLiveBytes() {
    const std::size_t live = LiveBytes();
    look_at = freed + live - std::min(live, few_bytes);
    if (live > few_bytes) return;
    FreeDeferred();
    if (has_lists && LiveBytes() == 0) StartOver();
  }

  __attribute__((noinline)) void FreeFirst(char* object, std::size_t block) {
    AddFree(object, block);
    AfterFree();
  }

  // The newest object.
  __attribute__((noinline)) void TakeBack(char* object) {
    WordOf(object) = kFree;
    reap_position = object;
    SetLimit();
    LookAtLiveBytes();
  }

  __attribute__((noinline)) void FreeUnusual(char* object) {
    const Word word = WordOf(object);
    if (word & kFree) ReportDoubleFree(object);
    if (word & kLarge) return FreeLarge(object);
    const std::size_t block = BlockFor(word);
    if (object + block == reap_position) return TakeBack(object);
    FreeFirst(object, block);
  }

  // Moves the position up to `object`, and leaves a free block that a sweep will find.
  void Skip(char* object) {
    const auto gap = static_cast<std::size_t>(object - reap_position);
    if (gap == 0) return;
    WordOf(reap_position) = FreeWord(gap);
    reap_position = object;
    origin += gap;
  }

  void UseFirstChunk() {
    UseEndOf(chunks, FirstObject());
    origin = reinterpret_cast<std::uintptr_t>(reap_position);
    SetLimit();
  }

  void UseEndOf(Chunk* chunk, char* from) {
    range_chunk = chunk;
    reap_position = from;
    range_end = chunk->End();
  }

  // Makes the range hold `block` bytes more; false when memory is short.
  __attribute__((noinline)) bool MakeRoom(std::size_t block) {
    if (range_chunk != nullptr && block <= static_cast<std::size_t>(range_end - reap_position)) {
      Touch(block);
      return true;
    }
    if (has_lists) {
      MayDefer();
      RetireRange();
      if (UseHole(std::max(block, kHole))) return true;
      if (freed - freed_at_sweep > std::max(LiveBytes() / kSweepShare, kSweepLeast)) {
        Sweep();
        if (UseHole(std::max(block, kHole))) return true;
      }
      if (UseHole(block)) return true;
    } else {
      range_chunk->used = reap_position;
    }
    return AddChunk(block);
  }

  void Touch(std::size_t block) {
    char* const touched = range_chunk->touched;
    const std::size_t step = RoundUp(BlockBytes() / kTouchShare, kPage);
    if (step > kPage) {
      const auto left = static_cast<std::size_t>(range_chunk->End() - touched);
      const std::size_t bytes = std::min(step, left);
      const KeepErrno keep;
      platform::Populate(touched, bytes);
      range_chunk->touched += bytes;
    }
    while (!RoomFor(block)) range_chunk->touched += kPage;
  }

  // The rest of the range becomes a free block.
  void RetireRange() {
    const auto rest = static_cast<std::size_t>(range_end - reap_position);
    if (rest != 0) AddFree(Bump(rest), rest);
    if (range_chunk != nullptr) {
      range_chunk->used = range_end;
      range_chunk->touched = range_end;
    }
    range_chunk = nullptr;
  }

  bool UseHole(std::size_t block) {
    char* const hole = lists.TakeAtLeast(block);
    if (hole == nullptr) return false;
    const std::size_t bytes = FreeLists::BlockOf(hole);
    const std::size_t others = BlockBytes() - bytes;
    taken += bytes;
    UseRange(hole, hole + bytes, others);
    return true;
  }

  // `others` are the bytes in blocks outside of the range.
  void UseRange(char* from, char* end, std::size_t others) {
    range_chunk = nullptr;
    reap_position = from;
    range_end = end;
    origin = reinterpret_cast<std::uintptr_t>(from) - others;
  }

  bool AddChunk(std::size_t block) {
    const std::size_t others = BlockBytes();
    const std::size_t growth = others > 2 * FreeBytes() ? std::bit_floor(others) : 0;
    const std::size_t wanted = std::clamp(growth, 4 * block, kLargestCached);
    Chunk* const chunk = TakeChunk(std::max(wanted, kSmallestChunk));
    if (chunk == nullptr || !Own(chunk, this)) return false;
    OwnedChunks::AddChunk(chunk);
    UseEndOf(chunk, FirstObjectIn(chunk));
    origin = reinterpret_cast<std::uintptr_t>(reap_position) - others;
    if (!RoomFor(block)) Touch(block);
    return true;
  }

  // Joins free blocks that lie side by side, and gives back chunks that hold nothing else.
  __attribute__((noinline)) void Sweep() {
    lists.Clear();
    taken = freed;
    std::size_t bytes = 0;
    for (Chunk** place = &chunks; *place != nullptr;) {
      Chunk* const chunk = *place;
      const bool first = chunk->next == nullptr;
      char* const begin = first ? FirstObject() : FirstObjectIn(chunk);
      if (chunk->used != chunk->End()) MakeBlock(chunk->used, chunk->End());
      chunk->used = chunk->touched = chunk->End();
      if (!first && FreeEnd(begin, chunk->End()) == chunk->End()) {
        *place = chunk->next;
        FreeChunk(chunk);
        continue;
      }
      bytes += static_cast<std::size_t>(chunk->End() - begin);
      JoinBlocks(begin, chunk->End());
      place = &chunk->next;
    }
    for (const Chunk* chunk = large; chunk != nullptr; chunk = chunk->next) bytes += chunk->bytes;
    char* const nowhere = FirstObject();
    UseRange(nowhere, nowhere, bytes);
    freed_at_sweep = freed;
  }

  static void MakeBlock(char* from, char* end) {
    WordOf(from) = FreeWord(static_cast<std::size_t>(end - from));
  }

  // Behind the free blocks that begin at `from`.
  static char* FreeEnd(char* from, const char* end) {
    while (from != end && WordOf(from) & kFree) from += FreeLists::BlockOf(from);
    return from;
  }

  void JoinBlocks(char* from, const char* end) {
    while (from != end) {
      char* const live = FreeEnd(from, end);
      if (live != from) AddFree(from, static_cast<std::size_t>(live - from));
      from = live == end ? live : live + FreeLists::BlockOf(live);
    }
  }

  __attribute__((noinline)) void* AllocateLarge(std::size_t size, std::size_t alignment) {
    FreeDeferred();
    Chunk* const chunk = AddLarge(size, alignment, kLargeStart, this);
    if (chunk == nullptr) return nullptr;
    char* const object = AlignUp(chunk->Base() + kLargeStart, alignment);
    chunk->touched = chunk->End();
    chunk->asked = size;
    origin -= chunk->bytes;
    SetLimit();
    ChunkOfLarge(object) = chunk;
    WordOf(object) = kLarge;
    return object;
  }

  bool ResizeLarge(char* object, std::size_t size) {
    Chunk* const chunk = ChunkOfLarge(object);
    const auto room = static_cast<std::size_t>(chunk->End() - object);
    if (size > room || size < room / 2) return false;
    chunk->asked = size;
    return true;
  }

  void FreeLarge(char* object) {
    Chunk* const chunk = ChunkOfLarge(object);
    origin += chunk->bytes;
    look_at = 0;
    OwnedChunks::FreeLarge(chunk);
    if (FreeBytes() != 0) AfterFree();
  }
};

}  // namespace tare::reap
