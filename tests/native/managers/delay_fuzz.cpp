// Random calls of the whole allocation interface, under the quarantine, against a model. It checks
// what each object holds, how it is aligned, and that no object is handed out again while the
// quarantine must still have it. Nothing but the calls themselves allocates: the model knows the
// volume of each thread's quarantine to the byte.
//
// delay_fuzz SEED OPERATIONS THREADS SIZE CAPACITY REALLOC FORKS
//
// SIZE and CAPACITY (objects) are those of the quarantine; SIZE 0: the model does not know when it
// is emptied. REALLOC is delay or pass. FORKS 1: now and then a child goes on for a while.

#include <malloc.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

// Not every allocator has these.
extern "C" {
[[gnu::weak]] void cfree(void* object);
[[gnu::weak]] void free_sized(void* object, std::size_t bytes);
[[gnu::weak]] void free_aligned_sized(void* object, std::size_t alignment, std::size_t bytes);
}

namespace {

constexpr std::size_t kObjects = 300, kMostHeld = 1 << 20, kMailbox = 32, kMostThreads = 8;
constexpr std::size_t kShadow = 1 << 20;
#ifdef __SANITIZE_THREAD__
constexpr std::size_t kLeastBytes = 1;  // it calls an object of no bytes freed
#else
constexpr std::size_t kLeastBytes = 0;
#endif

struct Settings {
  std::uint64_t seed;
  long operations;
  unsigned threads;
  std::size_t size, capacity;
  bool delay_realloc, forks;
} settings;

[[noreturn]] void Fail(const char* what, const void* object) {
  std::fprintf(stderr, "delay_fuzz: seed %lu: %s: %p\n", static_cast<unsigned long>(settings.seed),
               what, object);
  std::abort();
}

// Which objects the quarantine must have: each in the one place that its address leads to, if that
// is free. Relaxed, so that the threads are not put in an order by it.
std::atomic<void*> shadow[kShadow];

std::atomic<void*>& ShadowOf(void* object) {
  return shadow[(reinterpret_cast<std::uintptr_t>(object) >> 4) * 0x9e3779b97f4a7c15 >> 44];
}

void NoteHeld(void* object) {
  void* none = nullptr;
  ShadowOf(object).compare_exchange_strong(none, object, std::memory_order_relaxed);
}

void NoteReleased(void* object) {
  ShadowOf(object).compare_exchange_strong(object, nullptr, std::memory_order_relaxed);
}

enum class Family { kMalloc, kNew, kNewArray, kNewAligned, kNewArrayAligned };

struct Object {
  unsigned char* at;
  std::size_t bytes, alignment;
  Family family;
  unsigned char mark;
};

struct Letter {
  std::atomic<bool> taken;
  Object object;
} mailbox[kMailbox];

class Fuzzer {
 public:
  void Run(std::uint64_t seed, long operations) {
    random_ = seed * 0x9e3779b97f4a7c15 + 1;
    EmptyQuarantine();
    for (long i = 0; i < operations; ++i) Step();
    for (Object& object : objects_) Drop(object);
  }

 private:
  std::uint64_t Next(std::uint64_t bound) {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return (random_ >> 11) % bound;
  }

  // What was freed before the model began, by the C library for example, counts no more.
  void EmptyQuarantine() {
    void* const large = std::malloc(settings.size + 1);
    std::memset(large, 0, 1);
    std::free(large);
  }

  void WillBeFreed(void* object) {
    if (settings.size == 0) return;
    const std::size_t bytes = malloc_usable_size(object);
    if (held_ == settings.capacity) ReleaseAll();
    volume_ += bytes;
    if (volume_ >= settings.size) return ReleaseAll();
    held_objects_[held_++] = object;
    if (bytes != 0) NoteHeld(object);  // with poison=yes, one of no bytes is not held
  }

  void ReleaseAll() {
    for (std::size_t i = 0; i < held_; ++i) NoteReleased(held_objects_[i]);
    held_ = 0;
    volume_ = 0;
  }

  std::size_t SomeBytes() {
    const std::uint64_t kind = Next(100);
    const std::uint64_t most = kind == 0 ? 300'000 : kind < 10 ? 5000 : 200;
    return kLeastBytes + Next(most);
  }

  void Check(const Object& object) {
    for (std::size_t i = 0; i < object.bytes; ++i)
      if (object.at[i] != object.mark) Fail("lost its contents", object.at);
  }

  void Keep(Object& slot, void* at, std::size_t bytes, std::size_t alignment, Family family) {
    if (at == nullptr) Fail("no memory", at);
    if (ShadowOf(at).load(std::memory_order_relaxed) == at) Fail("is still in quarantine", at);
    const bool aligned = reinterpret_cast<std::uintptr_t>(at) % alignment == 0;
    // Some allocators align only what has bytes.
    if (!aligned && bytes != 0) Fail("is not aligned", at);
    if (malloc_usable_size(at) < bytes) Fail("is too small", at);
    slot = {static_cast<unsigned char*>(at), bytes, alignment, family,
            static_cast<unsigned char>(Next(256))};
    std::memset(at, slot.mark, bytes);
  }

  void Make(Object& slot) {
    const std::size_t bytes = SomeBytes();
    const std::size_t alignment = std::size_t{8} << Next(8);
    const std::size_t rounded = (bytes + alignment) / alignment * alignment;
    const std::align_val_t aligned{alignment};
    const std::size_t usual = bytes < 16 ? 8 : 16;
    void* object = nullptr;
    switch (Next(16)) {
      case 0: {
        object = std::calloc(bytes / 8 + 1, 8);
        for (std::size_t i = 0; i < bytes; ++i)
          if (static_cast<unsigned char*>(object)[i] != 0) Fail("is not zero", object);
        return Keep(slot, object, bytes, usual, Family::kMalloc);
      }
      case 1:
        return Keep(slot, memalign(alignment, bytes), bytes, alignment, Family::kMalloc);
      case 2:
        return Keep(slot, aligned_alloc(alignment, rounded), rounded, alignment, Family::kMalloc);
      case 3:
        if (posix_memalign(&object, alignment, bytes) != 0) Fail("no memory", nullptr);
        return Keep(slot, object, bytes, alignment, Family::kMalloc);
      case 4:
        return Next(10) == 0 ? Keep(slot, valloc(bytes), bytes, 4096, Family::kMalloc)
                             : Keep(slot, pvalloc(bytes), bytes, 4096, Family::kMalloc);
      case 5:
        return Keep(slot, std::realloc(nullptr, bytes + 1), bytes + 1, usual, Family::kMalloc);
      case 6:
        return Keep(slot, ::operator new(bytes), bytes, usual, Family::kNew);
      case 7:
        return Keep(slot, ::operator new(bytes, std::nothrow), bytes, usual, Family::kNew);
      case 8:
        return Keep(slot, ::operator new[](bytes), bytes, usual, Family::kNewArray);
      case 9:
        return Keep(slot, ::operator new[](bytes, std::nothrow), bytes, usual, Family::kNewArray);
      case 10:
        return Keep(slot, ::operator new(bytes, aligned), bytes, alignment, Family::kNewAligned);
      case 11:
        return Keep(slot, ::operator new[](bytes, aligned), bytes, alignment,
                    Family::kNewArrayAligned);
      default:
        return Keep(slot, std::malloc(bytes), bytes, usual, Family::kMalloc);
    }
  }

  void FreeMalloced(const Object& object) {
    const std::uint64_t form = Next(6);
    if (form == 0 && cfree != nullptr) return cfree(object.at);
    if (form == 1 && free_sized != nullptr) return free_sized(object.at, object.bytes);
    if (form == 2 && free_aligned_sized != nullptr)
      return free_aligned_sized(object.at, object.alignment, object.bytes);
    std::free(object.at);
  }

  void FreeByItsFamily(const Object& object) {
    const std::align_val_t aligned{object.alignment};
    const std::uint64_t form = Next(3);
    switch (object.family) {
      case Family::kMalloc:
        return FreeMalloced(object);
      case Family::kNew:
        if (form == 0) return ::operator delete(object.at);
        if (form == 1) return ::operator delete(object.at, object.bytes);
        return ::operator delete(object.at, std::nothrow);
      case Family::kNewArray:
        if (form == 0) return ::operator delete[](object.at);
        if (form == 1) return ::operator delete[](object.at, object.bytes);
        return ::operator delete[](object.at, std::nothrow);
      case Family::kNewAligned:
        if (form == 0) return ::operator delete(object.at, aligned);
        if (form == 1) return ::operator delete(object.at, object.bytes, aligned);
        return ::operator delete(object.at, aligned, std::nothrow);
      case Family::kNewArrayAligned:
        if (form == 0) return ::operator delete[](object.at, aligned);
        if (form == 1) return ::operator delete[](object.at, object.bytes, aligned);
        return ::operator delete[](object.at, aligned, std::nothrow);
    }
  }

  void Drop(Object& slot) {
    if (slot.at == nullptr) return;
    Check(slot);
    WillBeFreed(slot.at);
    errno = 77;
    FreeByItsFamily(slot);
    if (errno != 77) Fail("changed errno as it was freed", slot.at);
    slot.at = nullptr;
  }

  bool WillMove(const Object& slot, std::size_t bytes) {
    const std::size_t usable = malloc_usable_size(slot.at);
    if (!settings.delay_realloc || settings.size == 0 || usable >= settings.size) return false;
    return bytes > usable || bytes <= usable / 2;
  }

  void Resize(Object& slot) {
    if (slot.at == nullptr || slot.family != Family::kMalloc) return;
#ifdef __SANITIZE_ADDRESS__
    if (slot.bytes == 0) return;  // it says that one byte is usable, and forbids to read it
#endif
    const std::size_t bytes = SomeBytes() + 1, kept = bytes < slot.bytes ? bytes : slot.bytes;
    if (WillMove(slot, bytes)) WillBeFreed(slot.at);
    void* const moved =
        Next(2) == 0 ? std::realloc(slot.at, bytes) : reallocarray(slot.at, bytes, 1);
    Check({static_cast<unsigned char*>(moved), kept, 1, slot.family, slot.mark});
    Keep(slot, moved, bytes, 8, Family::kMalloc);
  }

  // Two threads may hold out their objects at the same time; one of them keeps its own.
  void Exchange(Object& slot) {
    Letter& letter = mailbox[Next(kMailbox)];
    if (letter.taken.exchange(true, std::memory_order_acquire)) return;
    const Object mine = slot;
    slot = letter.object;
    letter.object = mine;
    letter.taken.store(false, std::memory_order_release);
  }

  void Fork() {
    const pid_t child = fork();
    if (child == 0) {
      settings.forks = false;
      for (int i = 0; i < 1000; ++i) Step();
      for (Object& object : objects_) Drop(object);
      _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
      Fail("a child failed", nullptr);
  }

  void Step() {
    Object& slot = objects_[Next(kObjects)];
    const std::uint64_t kind = Next(settings.forks ? 2000 : 1999);
    if (kind == 1999) return Fork();
    if (kind < 200) return Resize(slot);
    if (kind < 300 && settings.threads > 1) return Exchange(slot);
    Drop(slot);
    if (kind < 1900) Make(slot);
  }

  std::uint64_t random_;
  Object objects_[kObjects];
  void* held_objects_[kMostHeld];
  std::size_t held_;
  std::size_t volume_;
};

Fuzzer fuzzers[kMostThreads];
std::atomic<unsigned> ended;

void* RunThread(void* fuzzer) {
  const auto index = static_cast<std::uint64_t>(static_cast<Fuzzer*>(fuzzer) - fuzzers);
  static_cast<Fuzzer*>(fuzzer)->Run(settings.seed * kMostThreads + index, settings.operations);
  // None ends before the others: the C library could free what is its own into a list.
  ++ended;
  while (ended < settings.threads) usleep(1000);
  return nullptr;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 8) return 2;
  const auto number = [&](int index) { return std::strtoul(arguments[index], nullptr, 10); };
  settings = {number(1),
              static_cast<long>(number(2)),
              static_cast<unsigned>(number(3)),
              number(4),
              number(5),
              std::strcmp(arguments[6], "delay") == 0,
              number(7) == 1};
  if (settings.threads > kMostThreads || settings.capacity > kMostHeld) return 2;
  pthread_t threads[kMostThreads];
  for (unsigned i = 1; i < settings.threads; ++i)
    if (pthread_create(&threads[i], nullptr, RunThread, &fuzzers[i]) != 0) return 3;
  RunThread(&fuzzers[0]);
  for (unsigned i = 1; i < settings.threads; ++i) pthread_join(threads[i], nullptr);
  return 0;
}
