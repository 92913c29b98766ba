// Reaps against a model: what is allocated must be aligned, apart from all else, keep its bytes, be
// owned by its reap, and leave nothing behind. The operations come from bytes: of a seed for the
// main program (reap_model SEED OPERATIONS), of libFuzzer with -DFUZZER.

#include <tare/reap.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <random>
#include <vector>

namespace {

#define REQUIRE(condition)                                                     \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
      abort();                                                                 \
    }                                                                          \
  } while (false)

constexpr std::size_t kDepth = 4;

#ifdef TARE_REAP_SEGREGATED
constexpr unsigned kOptions[] = {0, REAP_SHARED};
#else
constexpr unsigned kOptions[] = {0, REAP_SHARED, REAP_HARDENED, REAP_SHARED | REAP_HARDENED};
#endif

struct Object {
  std::size_t size;
  unsigned char fill;
};

struct Level {
  reap_t* reap = nullptr;
  std::map<unsigned char*, Object> objects;
};

class Model {
 public:
  explicit Model(unsigned options) : options_(options) { Push(); }
  ~Model() {
    Check();
    reap_destroy(levels_[0].reap);
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  void Step(unsigned operation, std::uint32_t a, std::uint32_t b) {
    Level& level = levels_[a % levels_.size()];
    switch (operation % 32) {
      case 0:
        if (levels_.size() < kDepth) Push();
        break;
      case 1:
        if (b % 16 == 0 && levels_.size() > 1) Pop();
        break;
      case 2:
        if (b % 64 == 0) Clear(a % levels_.size());
        break;
      case 3:
      case 4:
        Aligned(level, b);
        break;
      case 5:
      case 6:
        Resize(level, a, b);
        break;
      case 7:
        Zeroed(level, b);
        break;
      case 8:
        if (b % 32 == 0) Check();
        break;
      default:
        if (operation % 32 < 20)
          Add(level, reap_malloc(level.reap, Size(b)), Size(b), 16);
        else
          Remove(level, a);
    }
  }

 private:
  // Mostly small, now and then large.
  static std::size_t Size(std::uint32_t b) {
    if (b % 256 == 0) return b >> 8 & 0x3FFFF;
    if (b % 16 == 0) return b >> 8 & 0x1FFF;
    return b >> 8 & 0x7F;
  }

  void Push() {
    Level level;
    level.reap = reap_create_with(levels_.empty() ? nullptr : levels_.back().reap, options_);
    REQUIRE(level.reap != nullptr);
    levels_.push_back(level);
  }

  void Pop() {
    CheckLevel(levels_.back());
    reap_destroy(levels_.back().reap);
    levels_.pop_back();
  }

  // Destroys the reaps created in it too.
  void Clear(std::size_t at) {
    Check();
    reap_free_all(levels_[at].reap);
    levels_[at].objects.clear();
    levels_.resize(at + 1);
    reap_statistics_t statistics;
    reap_get_statistics(levels_[at].reap, &statistics);
    REQUIRE(statistics.allocated == 0 || (options_ & REAP_SHARED));
    REQUIRE(statistics.children == 0);
  }

  void Add(Level& level, void* pointer, std::size_t size, std::size_t alignment) {
    REQUIRE(pointer != nullptr);
    REQUIRE(reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0);
    auto* const object = static_cast<unsigned char*>(pointer);
    REQUIRE(reap_usable_size(object) >= size);
    for (const Level& other : levels_) RequireApart(other, object, size);
    const auto fill = static_cast<unsigned char>(++fills_);
    memset(object, fill, size);
    level.objects[object] = {size, fill};
  }

  static void RequireApart(const Level& level, unsigned char* object, std::size_t size) {
    const auto next = level.objects.lower_bound(object);
    if (next != level.objects.end()) REQUIRE(object + size <= next->first && object != next->first);
    if (next == level.objects.begin()) return;
    const auto& [before, found] = *std::prev(next);
    REQUIRE(before + found.size <= object);
  }

  static void RequireIntact(const unsigned char* object, std::size_t size, unsigned char fill) {
    for (std::size_t i = 0; i < size; ++i) REQUIRE(object[i] == fill);
  }

  std::map<unsigned char*, Object>::iterator Choose(Level& level, std::uint32_t a) {
    if (level.objects.empty()) return level.objects.end();
    auto chosen = level.objects.begin();
    std::advance(chosen, a % std::min<std::size_t>(level.objects.size(), 200));
    return chosen;
  }

  void Remove(Level& level, std::uint32_t a) {
    const auto chosen = Choose(level, a);
    if (chosen == level.objects.end()) return;
    const auto [object, found] = *chosen;
    RequireIntact(object, found.size, found.fill);
    REQUIRE(reap_of(object) == level.reap && reap_owns(level.reap, object));
    level.objects.erase(chosen);
    reap_free(level.reap, object);
  }

  void Resize(Level& level, std::uint32_t a, std::uint32_t b) {
    const auto chosen = Choose(level, a);
    if (chosen == level.objects.end()) return;
    const auto [object, found] = *chosen;
    level.objects.erase(chosen);
    auto* const moved = static_cast<unsigned char*>(reap_realloc(level.reap, object, Size(b)));
    REQUIRE(moved != nullptr);
    RequireIntact(moved, found.size < Size(b) ? found.size : Size(b), found.fill);
    Add(level, moved, Size(b), 16);
  }

  void Aligned(Level& level, std::uint32_t b) {
    const std::size_t alignment = std::size_t{1} << b % 18;
    Add(level, reap_aligned_alloc(level.reap, alignment, Size(b)), Size(b), alignment);
  }

  void Zeroed(Level& level, std::uint32_t b) {
    auto* const object = static_cast<unsigned char*>(reap_calloc(level.reap, 3, Size(b)));
    REQUIRE(object != nullptr);
    RequireIntact(object, 3 * Size(b), 0);
    Add(level, object, 3 * Size(b), 16);
  }

  static void CheckLevel(const Level& level) {
    std::size_t asked = 0;
    for (const auto& [object, found] : level.objects) {
      RequireIntact(object, found.size, found.fill);
      asked += found.size;
    }
    reap_statistics_t statistics;
    reap_get_statistics(level.reap, &statistics);
    REQUIRE(statistics.allocated >= asked);
    REQUIRE(statistics.reserved >= statistics.allocated + statistics.free);
  }

  void Check() {
    for (const Level& level : levels_) CheckLevel(level);
  }

  unsigned options_;
  unsigned fills_ = 0;
  std::vector<Level> levels_;
};

}  // namespace

#ifdef FUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  if (count == 0) return 0;
  Model model(kOptions[bytes[0] % std::size(kOptions)]);
  for (std::size_t at = 1; at + 9 <= count; at += 9) {
    std::uint32_t a;
    std::uint32_t b;
    memcpy(&a, bytes + at + 1, sizeof a);
    memcpy(&b, bytes + at + 5, sizeof b);
    model.Step(bytes[at], a, b);
  }
  return 0;
}
#else
int main(int count, char** values) {
  if (count != 3) return 2;
  std::mt19937 random(static_cast<unsigned>(atoi(values[1])));
  for (const unsigned options : kOptions) {
    Model model(options);
    for (int i = 0; i < atoi(values[2]); ++i) {
      const auto operation = static_cast<unsigned>(random());
      const auto a = static_cast<std::uint32_t>(random());
      model.Step(operation, a, static_cast<std::uint32_t>(random()));
    }
  }
  return 0;
}
#endif
