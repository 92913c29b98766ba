// What reaps promise, one function each. Run without arguments; a broken promise ends the program
// with a message. With the name of a misuse, does it, which must end the program.

#include <sys/resource.h>
#include <sys/wait.h>
#include <tare/reap.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <string>
#include <string_view>
#include <tare/reap.hpp>
#include <vector>

namespace {

#define REQUIRE(condition)                                                     \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
      abort();                                                                 \
    }                                                                          \
  } while (false)

#ifdef TARE_REAP_SEGREGATED
constexpr bool kSegregated = true;
#else
constexpr bool kSegregated = false;
#endif

char* Allocate(reap_t* reap, std::size_t size) {
  return static_cast<char*>(reap_malloc(reap, size));
}

reap_statistics_t StatisticsOf(reap_t* reap) {
  reap_statistics_t statistics;
  reap_get_statistics(reap, &statistics);
  return statistics;
}

void BumpsUntilTheFirstFree() {
  reap_t* const reap = reap_create(nullptr);
  char* const first = Allocate(reap, 40);
  char* const second = Allocate(reap, 40);
  char* const third = Allocate(reap, 40);
  REQUIRE(second - first == 48 && third - second == 48);
  reap_free(reap, second);
  REQUIRE(StatisticsOf(reap).free == 48);
  REQUIRE(Allocate(reap, 40) == second);      // as a heap
  REQUIRE(Allocate(reap, 40) == third + 48);  // and bumping again
  reap_destroy(reap);
}

void FreeingTheNewestMovesBack() {
  reap_t* const reap = reap_create(nullptr);
  Allocate(reap, 100);
  char* const second = Allocate(reap, 100);
  char* const third = Allocate(reap, 100);
  reap_free(reap, third);
  reap_free(reap, second);
  REQUIRE(StatisticsOf(reap).free == 0);
  REQUIRE(Allocate(reap, 7) == second);
  reap_destroy(reap);
}

void AnEmptyHeapBumpsAgain() {
  reap_t* const reap = reap_create(nullptr);
  std::vector<char*> objects;
  for (int i = 0; i < 100'000; ++i) objects.push_back(Allocate(reap, 50));
  REQUIRE(StatisticsOf(reap).chunks > 1);
  for (char* const object : objects) reap_free(reap, object);
  const reap_statistics_t statistics = StatisticsOf(reap);
  REQUIRE(statistics.allocated == 0 && statistics.free == 0 && statistics.chunks == 1);
  for (int i = 0; i < 100; ++i) REQUIRE(Allocate(reap, 50) == objects[0] + 64 * i);
  reap_destroy(reap);
}

void HolesAreJoined() {
  reap_t* const reap = reap_create(nullptr);
  std::vector<char*> objects;
  for (int i = 0; i < 20'000; ++i) objects.push_back(Allocate(reap, 50));
  for (std::size_t i = 1; i < objects.size(); ++i) reap_free(reap, objects[i]);
  const std::size_t reserved = StatisticsOf(reap).reserved;
  for (int i = 0; i < 40; ++i) REQUIRE(Allocate(reap, 20'000) != nullptr);
  REQUIRE(StatisticsOf(reap).reserved <= reserved);
  reap_destroy(reap);
}

void MixedFreesDoNotGrowWithoutBound() {
  reap_t* const reap = reap_create(nullptr);
  std::vector<char*> objects(1000);
  std::size_t most = 0;
  std::uint32_t random = 1;
  for (int i = 0; i < 300'000; ++i) {
    random = random * 1664525 + 1013904223;
    char*& object = objects[(random >> 8) % objects.size()];
    reap_free(reap, object);
    object = Allocate(reap, (random >> 20) % (i % 20 == 0 ? 4000 : 100));
    if (i == 100'000) most = StatisticsOf(reap).reserved;
  }
  REQUIRE(StatisticsOf(reap).reserved <= 2 * most);
  reap_destroy(reap);
}

void ReapsNest() {
  reap_t* const outer = reap_create(nullptr);
  reap_t* const middle = reap_create(outer);
  reap_t* const inner = reap_create(middle);
  char* const object = Allocate(inner, 10);
  REQUIRE(reap_of(object) == inner && reap_owns(inner, object) && !reap_owns(outer, object));
  REQUIRE(StatisticsOf(outer).children == 1);
  reap_free_all(outer);
  REQUIRE(StatisticsOf(outer).children == 0);
  REQUIRE(reap_of(object) == nullptr);
  reap_t* last = outer;
  for (int depth = 0; depth < 20'000; ++depth) last = reap_create(last);
  REQUIRE(last != nullptr);
  reap_destroy(outer);
}

void AnyPointerCanBeAskedAbout() {
  int local = 0;
  reap_t* const reap = reap_create(nullptr);
  char* const large = Allocate(reap, 300'000);
  REQUIRE(reap_of(&local) == nullptr && reap_of(nullptr) == nullptr);
  REQUIRE(reap_of(reinterpret_cast<void*>(~std::uintptr_t{0})) == nullptr);
  REQUIRE(reap_of(large) == reap && reap_of(large + 299'999) == reap);
  reap_free(reap_of(large), large);
  REQUIRE(reap_of(large) == nullptr);
  reap_destroy(reap);
}

void SizesAreBounded() {
  reap_t* const reap = reap_create(nullptr);
  for (const std::size_t size : {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX - 19, SIZE_MAX / 2}) {
    volatile std::size_t hidden = size;
    errno = 0;
    REQUIRE(reap_malloc(reap, hidden) == nullptr && errno == ENOMEM);
    REQUIRE(reap_aligned_alloc(reap, 64, hidden) == nullptr && errno == ENOMEM);
  }
  volatile std::size_t half = SIZE_MAX / 2 + 2;
  REQUIRE(reap_calloc(reap, half, 2) == nullptr);
  errno = 0;
  REQUIRE(reap_aligned_alloc(reap, 48, 10) == nullptr && errno == EINVAL);
  REQUIRE(reap_aligned_alloc(reap, 0, 10) == nullptr && errno == EINVAL);
  REQUIRE(reap_create_with(nullptr, 4) == nullptr && errno == EINVAL);
  char* const empty = Allocate(reap, 0);
  REQUIRE(empty != nullptr && empty != Allocate(reap, 0));
  REQUIRE(reap_usable_size(nullptr) == 0);
  reap_free(reap, nullptr);
  reap_destroy(nullptr);
  reap_destroy(reap);
}

void ReallocGrowsTheNewestInPlace() {
  reap_t* const reap = reap_create(nullptr);
  char* object = Allocate(reap, 8);
  const auto place = reinterpret_cast<std::uintptr_t>(object);
  for (std::size_t size = 16; size <= 16'000; size += 16) {
    object = static_cast<char*>(reap_realloc(reap, object, size));
    REQUIRE(reinterpret_cast<std::uintptr_t>(object) == place);
  }
  memset(object, 7, 16'000);
  Allocate(reap, 1);
  object = static_cast<char*>(reap_realloc(reap, object, 200'000));
  for (int i = 0; i < 16'000; ++i) REQUIRE(object[i] == 7);
  object = static_cast<char*>(reap_realloc(reap, object, 100));
  for (int i = 0; i < 100; ++i) REQUIRE(object[i] == 7);
  reap_destroy(reap);
}

void ChunksAreUsedAgainAndGivenBack() {
  reap_trim();
  reap_t* reap = reap_create(nullptr);
  void* const before = Allocate(reap, 1);
  reap_destroy(reap);
  reap = reap_create(nullptr);
  REQUIRE(Allocate(reap, 1) == before);
  for (int i = 0; i < 100; ++i) Allocate(reap, 1'000'000);
  const std::size_t reserved = StatisticsOf(reap).reserved;
  reap_set_cache_limit(1 << 20);
  reap_destroy(reap);
  const std::size_t kept = reap_trim();
  REQUIRE(kept > 0 && kept <= (8 << 20) + (1 << 20) && kept < reserved);
  REQUIRE(reap_trim() == 0);
}

void MemoryRunsOut() {
  if (fork() == 0) {
    const rlimit limit = {256 << 20, 256 << 20};
    setrlimit(RLIMIT_AS, &limit);
    reap_t* const reap = reap_create(nullptr);
    char* last = nullptr;
    errno = 0;
    while (char* const object = Allocate(reap, 20'000)) {
      memset(object, 1, 20'000);
      last = object;
    }
    REQUIRE(errno == ENOMEM && last != nullptr);
    errno = 0;
    REQUIRE(reap_realloc(reap, last, 1 << 30) == nullptr && errno == ENOMEM && last[19'999] == 1);
    reap_free_all(reap);
    REQUIRE(Allocate(reap, 20'000) != nullptr);
    _exit(0);
  }
  int status = 1;
  wait(&status);
  REQUIRE(status == 0);
}

void CppHasItsOwnInterfaces() {
  tare::Reap reap;
  tare::Reap inner(reap, REAP_HARDENED);
  std::string* const text = inner.New<std::string>("a string that does not fit into itself");
  REQUIRE(inner.Owns(text) && !reap.Owns(text));
  inner.Delete(text);

  tare::ReapResource resource(reap);
  std::pmr::vector<std::pmr::string> words(&resource);
  for (int i = 0; i < 1000; ++i) words.emplace_back("another string that does not fit into itself");
  REQUIRE(reap.Owns(words.data()) && reap.Owns(words.back().data()));
  REQUIRE(resource == tare::ReapResource(reap) && resource != tare::ReapResource(inner));

  std::list<int, tare::ReapAllocator<int>> numbers{tare::ReapAllocator<int>(reap)};
  for (int i = 0; i < 1000; ++i) numbers.push_back(i);
  REQUIRE(reap.Owns(&numbers.back()));

  struct alignas(128) Wide {
    char bytes[128];
  };
  std::vector<Wide, tare::ReapAllocator<Wide>> wide{tare::ReapAllocator<Wide>(reap)};
  wide.resize(10);
  REQUIRE(reinterpret_cast<std::uintptr_t>(wide.data()) % 128 == 0);
  REQUIRE(reap.Statistics().children == 1);

  tare::Reap moved(std::move(inner));
  REQUIRE(inner.Get() == nullptr && moved.Get() != nullptr);
}

// Without headers.

void ObjectsOfASizeLieSideBySide() {
  reap_t* const reap = reap_create(nullptr);
  char* const first = Allocate(reap, 32);
  Allocate(reap, 500);
  char* const second = Allocate(reap, 20);
  REQUIRE(second - first == 32);
  reap_free(reap, first);
  REQUIRE(StatisticsOf(reap).free == 32);
  REQUIRE(Allocate(reap, 25) == first);
  reap_destroy(reap);
}

void AnEmptyReapStartsOver() {
  reap_t* const reap = reap_create(nullptr);
  std::vector<char*> objects;
  for (int i = 0; i < 100'000; ++i) objects.push_back(Allocate(reap, 50));
  REQUIRE(StatisticsOf(reap).chunks > 1);
  for (char* const object : objects) reap_free(reap, object);
  const reap_statistics_t statistics = StatisticsOf(reap);
  REQUIRE(statistics.allocated == 0 && statistics.free == 0 && statistics.chunks == 1);
  REQUIRE(Allocate(reap, 50) == objects[0]);
  reap_destroy(reap);
}

void HardeningIsRefused() {
  errno = 0;
  REQUIRE(reap_create_with(nullptr, REAP_HARDENED) == nullptr && errno == EINVAL);
}

void Misuse(std::string_view what) {
  reap_t* const plain = reap_create(nullptr);
  reap_t* const reap = reap_create_with(nullptr, REAP_HARDENED);
  reap_t* const other = reap_create_with(nullptr, REAP_HARDENED);
  char* volatile const object = Allocate(reap, 20);
  char* volatile const newer = Allocate(reap, 20);
  if (what == "double-free-plain") {
    char* volatile const twice = Allocate(plain, 20);
    Allocate(plain, 20);
    reap_free(plain, twice);
    reap_free(plain, twice);
  } else if (what == "double-free") {
    reap_free(reap, object);
    reap_free(reap, object);
  } else if (what == "overflow") {
    object[20] = 1;
    reap_free(reap, object);
  } else if (what == "underflow") {
    newer[-1] = 1;
    reap_free(reap, newer);
  } else if (what == "wrong-reap") {
    reap_free(other, object);
  } else if (what == "no-reap") {
    int local = 0;
    reap_free(reap, &local);
  } else if (what == "inside") {
    char* const large = Allocate(reap, 500);
    memset(large, 1, 500);
    reap_free(reap, large + 64);
  } else if (what == "large") {
    char* const large = Allocate(reap, 100'000);
    large[100'000] = 1;
    reap_free(reap, large);
  }
}

}  // namespace

int main(int count, char** values) {
  if (count > 1) {
    Misuse(values[1]);
    return 0;
  }
  if constexpr (kSegregated) {
    ObjectsOfASizeLieSideBySide();
    AnEmptyReapStartsOver();
    HardeningIsRefused();
  } else {
    BumpsUntilTheFirstFree();
    FreeingTheNewestMovesBack();
    AnEmptyHeapBumpsAgain();
    HolesAreJoined();
    ReallocGrowsTheNewestInPlace();
    CppHasItsOwnInterfaces();
  }
  MixedFreesDoNotGrowWithoutBound();
  ReapsNest();
  AnyPointerCanBeAskedAbout();
  SizesAreBounded();
  ChunksAreUsedAgainAndGivenBack();
  MemoryRunsOut();
  puts("ok");
  return 0;
}
