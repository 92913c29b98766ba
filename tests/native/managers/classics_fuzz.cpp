// The classics against a model: objects are aligned, apart from all others, and keep their bytes.
// The operations come from random numbers: classics_fuzz NAME SEED OPERATIONS; or, with -DFUZZER,
// from libFuzzer. With -DTHREADS many threads free what others made: classics_fuzz NAME THREADS
// OPERATIONS.

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include "haertel/haertel.hpp"
#include "hoard-classic/hoard-classic.hpp"
#include "kingsley/kingsley.hpp"
#include "lea93/lea93.hpp"
#include "obstack/obstack.hpp"
#include "perclass/perclass.hpp"
#include "quickfit/quickfit.hpp"
#include "region/region.hpp"
#include "stacklike/stacklike.hpp"
#include "tare/layers/aligned.hpp"
#include "windowsxp/windowsxp.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes)
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes)
#endif

namespace {

using namespace tare;
using layers::RoundUp;

#define REQUIRE(condition)                                                     \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
      abort();                                                                 \
    }                                                                          \
  } while (false)

// Of which only what was taken, and not given back, may be touched.
class Arena {
 public:
  static constexpr bool kRises = true;

  constexpr Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  ~Arena() {
    if (memory_ == nullptr) return;
    ASAN_UNPOISON_MEMORY_REGION(memory_, kBytes);
    munmap(memory_, kBytes);
  }

  void* Take(std::size_t bytes) {
    std::call_once(reserved_, [this] { Reserve(); });
    if (bytes > kBytes / 2) return nullptr;
    const std::size_t at = taken_.fetch_add(RoundUp(bytes, kPage));
    if (at + bytes > kBytes) return nullptr;
    ASAN_UNPOISON_MEMORY_REGION(memory_ + at, bytes);
    return memory_ + at;
  }

  void Give([[maybe_unused]] void* memory, [[maybe_unused]] std::size_t bytes) {
    ASAN_POISON_MEMORY_REGION(memory, bytes);
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{256} << 20;
  static constexpr std::size_t kPage = 4096;

  void Reserve() {
    void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    memory_ = static_cast<char*>(memory);
    ASAN_POISON_MEMORY_REGION(memory, kBytes);
  }

  std::once_flag reserved_;
  char* memory_ = nullptr;
  std::atomic<std::size_t> taken_ = 0;
};

struct Object {
  std::size_t size;
  unsigned char fill;
};

// Mostly small, now and then large.
std::size_t SizeOf(std::uint32_t b) {
  if (b % 512 == 0) return b >> 9 & 0x3FFFF;
  if (b % 16 == 0) return b >> 8 & 0x1FFF;
  return b >> 8 & 0x7F;
}

template <typename Heap>
class Model {
 public:
  void Step(unsigned operation, std::uint32_t a, std::uint32_t b) {
    switch (operation % 16) {
      case 0:
        return Aligned(b);
      case 1:
      case 2:
        return Resize(a, b);
      default:
        return operation % 16 < 10 ? Add(heap_->Allocate(SizeOf(b)), SizeOf(b), 16) : Remove(a);
    }
  }

  void FreeAll() {
    while (!objects_.empty()) Remove(0);
    REQUIRE(heap_->Allocate(SIZE_MAX) == nullptr);
    REQUIRE(heap_->Allocate(SIZE_MAX - 64) == nullptr);
    REQUIRE(heap_->AllocateAligned(64, SIZE_MAX - 64) == nullptr);
    REQUIRE(heap_->AllocateAligned(std::size_t{1} << 63, 1) == nullptr);
  }

 private:
  void Add(void* pointer, std::size_t size, std::size_t alignment) {
    REQUIRE(pointer != nullptr);
    REQUIRE(reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0);
    auto* const object = static_cast<unsigned char*>(pointer);
    const std::size_t usable = heap_->Size(object);
    REQUIRE(usable >= size);
    RequireApart(object, usable);
    const auto fill = static_cast<unsigned char>(++fills_);
    memset(object, fill, usable);
    objects_[object] = {usable, fill};
  }

  void RequireApart(unsigned char* object, std::size_t size) {
    const auto next = objects_.lower_bound(object);
    if (next != objects_.end()) REQUIRE(object != next->first && object + size <= next->first);
    if (next == objects_.begin()) return;
    const auto& [before, found] = *std::prev(next);
    REQUIRE(before + found.size <= object);
  }

  static void RequireIntact(const unsigned char* object, std::size_t size, unsigned char fill) {
    REQUIRE(size == 0 || (object[0] == fill && memcmp(object, object + 1, size - 1) == 0));
  }

  auto Choose(std::uint32_t a) {
    auto chosen = objects_.begin();
    std::advance(chosen, a % std::min<std::size_t>(objects_.size(), 100));
    return chosen;
  }

  void Remove(std::uint32_t a) {
    if (objects_.empty()) return;
    const auto chosen = Choose(a);
    const auto [object, found] = *chosen;
    RequireIntact(object, found.size, found.fill);
    REQUIRE(heap_->Size(object) == found.size);
    objects_.erase(chosen);
    heap_->Free(object);
  }

  void Resize(std::uint32_t a, std::uint32_t b) {
    if constexpr (layers::Resizable<Heap>) {
      if (objects_.empty()) return;
      const auto [object, found] = *Choose(a);
      const std::size_t wanted = found.size + SizeOf(b);
      if (!heap_->Resize(object, wanted)) return;
      RequireIntact(object, found.size, found.fill);
      objects_.erase(object);
      Add(object, wanted, 16);
    }
  }

  void Aligned(std::uint32_t b) {
    const std::size_t alignment = std::size_t{1} << b % 14;
    Add(heap_->AllocateAligned(alignment, SizeOf(b)), SizeOf(b), alignment);
  }

  std::unique_ptr<Heap> heap_ = std::make_unique<Heap>();
  std::map<unsigned char*, Object> objects_;
  unsigned fills_ = 0;
};

#if defined(FUZZER)
template <typename Heap>
void Run(const std::uint8_t* bytes, std::size_t count) {
  Model<Heap> model;
  for (std::size_t at = 0; at + 9 <= count; at += 9) {
    std::uint32_t a;
    std::uint32_t b;
    memcpy(&a, bytes + at + 1, sizeof a);
    memcpy(&b, bytes + at + 5, sizeof b);
    model.Step(bytes[at], a, b);
  }
  model.FreeAll();
}
#elif defined(THREADS)
// An object begins with its size; its last byte tells it too.
void Mark(unsigned char* object, std::size_t size) {
  memcpy(object, &size, sizeof size);
  object[size - 1] = static_cast<unsigned char>(size);
}

void RequireMarked(const unsigned char* object) {
  std::size_t size;
  memcpy(&size, object, sizeof size);
  REQUIRE(size == sizeof size || object[size - 1] == static_cast<unsigned char>(size));
}

template <typename Heap>
void Run(unsigned count, int operations) {
  const auto heap = std::make_unique<Heap>();
  std::array<std::atomic<unsigned char*>, 200> shared = {};
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < operations; ++i) {
      const std::size_t size =
          sizeof(std::size_t) + 1 + SizeOf(static_cast<std::uint32_t>(random()));
      auto* const made = static_cast<unsigned char*>(
          random() % 16 == 0 ? heap->AllocateAligned(128, size) : heap->Allocate(size));
      REQUIRE(made != nullptr);
      Mark(made, size);
      unsigned char* const found = shared[random() % shared.size()].exchange(made);
      if (found == nullptr) continue;
      RequireMarked(found);
      heap->Free(found);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < count; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  for (auto& slot : shared)
    if (slot != nullptr) heap->Free(slot);
}
#else
template <typename Heap>
void Run(unsigned seed, int operations) {
  Model<Heap> model;
  std::mt19937 random(seed);
  for (int i = 0; i < operations; ++i) {
    const auto operation = static_cast<unsigned>(random());
    const auto a = static_cast<std::uint32_t>(random());
    model.Step(operation, a, static_cast<std::uint32_t>(random()));
  }
  model.FreeAll();
}

#endif

#ifdef FUZZER
using Runner = void (*)(const std::uint8_t*, std::size_t);
#else
using Runner = void (*)(unsigned, int);
#endif

struct Entry {
  std::string_view name;
  Runner run;
};

template <typename Classic>
constexpr Entry EntryOf(std::string_view name) {
  using Heap = layers::Aligned<Classic>;
  static_assert(layers::SizedHeap<Heap> && layers::ForkSafe<Heap>);
  return {name, Run<Heap>};
}

constexpr std::array kClassics = {
    EntryOf<classics::Haertel<Arena>>("haertel"),
    EntryOf<classics::HoardClassic<Arena>>("hoard-classic"),
    EntryOf<classics::Kingsley<Arena>>("kingsley"),
    EntryOf<classics::Lea93<Arena>>("lea93"),
    EntryOf<classics::Obstack<Arena>>("obstack"),
    EntryOf<classics::PerClass<Arena>>("perclass"),
    EntryOf<classics::QuickFit<Arena>>("quickfit"),
    EntryOf<classics::Region<Arena>>("region"),
    EntryOf<classics::StackLike<Arena>>("stacklike"),
    EntryOf<classics::WindowsXp<Arena>>("windowsxp"),
};

}  // namespace

#ifdef FUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  if (count != 0) kClassics[bytes[0] % kClassics.size()].run(bytes + 1, count - 1);
  return 0;
}
#else
int main(int count, char** values) {
  if (count != 4) return 2;
  for (const Entry& entry : kClassics) {
    if (entry.name != values[1]) continue;
    entry.run(static_cast<unsigned>(atoi(values[2])), atoi(values[3]));
    puts("ok");
    return 0;
  }
  return 2;
}
#endif
