// Regions beside each other: a bump region as one would write it by hand, reaps, APR's pools,
// mimalloc's heaps and jemalloc's arenas. Prints a line "case alternative value…" for each:
// nanoseconds an object, with its first word written to, or for the case memory the resident bytes
// for each byte asked for; a value a round.
//
//   reap_bench SEGREGATED MIMALLOC JEMALLOC    paths of objects: of the library of reaps without
//                                              headers, and two that are loaded if they can be
//
// All alternatives of a case run in each round, in an order drawn anew.

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <tare/reap.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#if __has_include(<apr_pools.h>)
#include <apr_pools.h>
#define HAVE_APR 1
#endif

namespace {

constexpr int kRounds = 31;
constexpr std::size_t kObjectsPerSample = 200'000;
constexpr std::size_t kMany = 100'000;
constexpr std::size_t kSome = 1'000;

// 16 to 64 bytes.
const std::vector<std::uint16_t> sizes = [] {
  std::mt19937 random(1);
  std::vector<std::uint16_t> drawn(kMany);
  for (auto& size : drawn) size = static_cast<std::uint16_t>(16 + random() % 49);
  return drawn;
}();

// Half of the numbers of objects, at random.
const std::vector<std::uint32_t> half = [] {
  std::mt19937 random(2);
  std::vector<std::uint32_t> drawn;
  for (std::uint32_t number = 0; number < kMany; ++number)
    if (random() & 1) drawn.push_back(number);
  return drawn;
}();

// By hand: chunks that double, kept when the region goes.
class Bump {
 public:
  static constexpr const char* kName = "bump";
  struct Chunk {
    Chunk* next;
    std::size_t bytes;
  };

  explicit Bump(Bump* = nullptr) {}
  Bump(const Bump&) = delete;
  Bump& operator=(const Bump&) = delete;
  ~Bump() {
    while (Chunk* const chunk = chunks_) {
      chunks_ = chunk->next;
      Chunk*& list = kept[__builtin_ctzl(chunk->bytes)];
      chunk->next = list;
      list = chunk;
    }
  }
  void* Allocate(std::size_t size) {
    const std::size_t bytes = (size + 15) & ~std::size_t{15};
    char* const object = position_;
    if (bytes > static_cast<std::size_t>(limit_ - object)) return Refill(bytes);
    position_ = object + bytes;
    return object;
  }

 private:
  __attribute__((noinline)) void* Refill(std::size_t bytes) {
    const std::size_t wanted =
        chunks_ == nullptr ? 64 << 10 : std::min<std::size_t>(2 * chunks_->bytes, 4 << 20);
    Chunk*& list = kept[__builtin_ctzl(wanted)];
    Chunk* chunk = list;
    if (chunk != nullptr) {
      list = chunk->next;
    } else {
      chunk = static_cast<Chunk*>(
          mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
      chunk->bytes = wanted;
    }
    chunk->next = chunks_;
    chunks_ = chunk;
    char* const object = reinterpret_cast<char*>(chunk + 1);
    position_ = object + bytes;
    limit_ = reinterpret_cast<char*>(chunk) + wanted;
    return object;
  }

  static inline Chunk* kept[64];
  char* position_ = nullptr;
  char* limit_ = nullptr;
  Chunk* chunks_ = nullptr;
};

class Reap {
 public:
  static constexpr const char* kName = "reap";
  explicit Reap(Reap* parent = nullptr)
      : reap_(reap_create(parent == nullptr ? nullptr : parent->reap_)) {}
  Reap(const Reap&) = delete;
  Reap& operator=(const Reap&) = delete;
  ~Reap() { reap_destroy(reap_); }
  void* Allocate(std::size_t size) { return reap_malloc(reap_, size); }
  void Free(void* object) { reap_free(reap_, object); }

 protected:
  reap_t* reap_;
};

// As from a language that cannot inline C.
class CalledReap : public Reap {
 public:
  using Reap::Reap;
  static constexpr const char* kName = "reap_called";
  void* Allocate(std::size_t size) { return function(reap_, size); }

 private:
  static inline void* (*volatile called)(reap_t*, std::size_t) = reap_malloc;
  static inline void* (*const function)(reap_t*, std::size_t) = called;
};

template <unsigned kOptions>
class ReapWith {
 public:
  static constexpr const char* kName = kOptions == REAP_SHARED ? "reap_shared" : "reap_hardened";
  explicit ReapWith(ReapWith* parent = nullptr)
      : reap_(reap_create_with(parent == nullptr ? nullptr : parent->reap_, kOptions)) {}
  ReapWith(const ReapWith&) = delete;
  ReapWith& operator=(const ReapWith&) = delete;
  ~ReapWith() { reap_destroy(reap_); }
  void* Allocate(std::size_t size) { return reap_malloc(reap_, size); }
  void Free(void* object) { reap_free(reap_, object); }

 private:
  reap_t* reap_;
};

struct ReapFunctions {
  reap_t* (*create)(reap_t*);
  void (*destroy)(reap_t*);
  void* (*malloc)(reap_t*, std::size_t);
  void (*free)(reap_t*, void*);
} segregated;

class SegregatedReap {
 public:
  static constexpr const char* kName = "reap_segregated";
  explicit SegregatedReap(SegregatedReap* parent = nullptr)
      : reap_(segregated.create(parent == nullptr ? nullptr : parent->reap_)) {}
  SegregatedReap(const SegregatedReap&) = delete;
  SegregatedReap& operator=(const SegregatedReap&) = delete;
  ~SegregatedReap() { segregated.destroy(reap_); }
  void* Allocate(std::size_t size) { return segregated.malloc(reap_, size); }
  void Free(void* object) { segregated.free(reap_, object); }

 private:
  reap_t* reap_;
};

#ifdef HAVE_APR
class Apr {
 public:
  static constexpr const char* kName = "apr";
  explicit Apr(Apr* parent = nullptr) {
    apr_pool_create(&pool_, parent == nullptr ? nullptr : parent->pool_);
  }
  Apr(const Apr&) = delete;
  Apr& operator=(const Apr&) = delete;
  ~Apr() { apr_pool_destroy(pool_); }
  void* Allocate(std::size_t size) { return apr_palloc(pool_, size); }

 private:
  apr_pool_t* pool_ = nullptr;
};
#endif

struct MimallocFunctions {
  void* (*heap_new)();
  void (*heap_destroy)(void*);
  void* (*heap_malloc)(void*, std::size_t);
  void* (*malloc)(std::size_t);
  void (*free)(void*);
} mimalloc;

class MimallocHeap {
 public:
  static constexpr const char* kName = "mimalloc_heap";
  explicit MimallocHeap(MimallocHeap* = nullptr) : heap_(mimalloc.heap_new()) {}
  MimallocHeap(const MimallocHeap&) = delete;
  MimallocHeap& operator=(const MimallocHeap&) = delete;
  ~MimallocHeap() { mimalloc.heap_destroy(heap_); }
  void* Allocate(std::size_t size) { return mimalloc.heap_malloc(heap_, size); }
  void Free(void* object) { mimalloc.free(object); }

 private:
  void* heap_;
};

struct JemallocFunctions {
  int (*control)(const char*, void*, std::size_t*, void*, std::size_t);
  int (*control_by_numbers)(const std::size_t*, std::size_t, void*, std::size_t*, void*,
                            std::size_t);
  void* (*allocate)(std::size_t, int);
  void (*deallocate)(void*, int);
} jemalloc;

// Emptied with the region, and kept for the next. Past the thread's cache, whose objects would
// outlive it.
class JemallocArena {
 public:
  static constexpr const char* kName = "jemalloc_arena";
  explicit JemallocArena(JemallocArena* = nullptr) : number_(Take()) {
    flags_ = static_cast<int>((number_ + 1) << 20) | kNoThreadCache;
  }
  JemallocArena(const JemallocArena&) = delete;
  JemallocArena& operator=(const JemallocArena&) = delete;
  ~JemallocArena() {
    const std::size_t path[] = {reset[0], number_, reset[2]};
    if (jemalloc.control_by_numbers(path, 3, nullptr, nullptr, nullptr, 0) != 0) std::abort();
    kept.push_back(number_);
  }
  void* Allocate(std::size_t size) { return jemalloc.allocate(size, flags_); }
  void Free(void* object) { jemalloc.deallocate(object, kNoThreadCache); }

  // "arena.NUMBER.reset" as jemalloc's numbers, looked up once.
  static inline std::size_t reset[3];

 private:
  static unsigned Take() {
    unsigned number = 0;
    if (kept.empty()) {
      std::size_t bytes = sizeof number;
      if (jemalloc.control("arenas.create", &number, &bytes, nullptr, 0) != 0) std::abort();
    } else {
      number = kept.back();
      kept.pop_back();
    }
    return number;
  }

  static constexpr int kNoThreadCache = 1 << 8;
  static inline std::vector<unsigned> kept;
  unsigned number_;
  int flags_;
};

class MimallocPlain {
 public:
  static constexpr const char* kName = "mimalloc";
  void* Allocate(std::size_t size) { return mimalloc.malloc(size); }
  void Free(void* object) { mimalloc.free(object); }
};

template <typename Region>
void* Touched(Region& region, std::size_t number) {
  void* const object = region.Allocate(sizes[number]);
  *static_cast<std::size_t*>(object) = number;
  return object;
}

// Each returns how many objects it allocated.

template <typename Region, std::size_t kObjects>
std::size_t Regions() {
  for (std::size_t done = 0; done < kObjectsPerSample; done += kObjects) {
    Region region;
    for (std::size_t i = 0; i < kObjects; ++i) Touched(region, i);
  }
  return kObjectsPerSample;
}

template <typename Region, std::size_t kObjects, std::size_t kSize>
std::size_t OfOneSize() {
  for (std::size_t done = 0; done < kObjectsPerSample; done += kObjects) {
    Region region;
    for (std::size_t i = 0; i < kObjects; ++i) {
      *static_cast<std::size_t*>(region.Allocate(kSize)) = i;
    }
  }
  return kObjectsPerSample;
}

template <typename Region>
std::size_t Nested() {
  constexpr std::size_t kInner = 100;
  constexpr std::size_t kRequests = kObjectsPerSample / (11 * kInner);
  for (std::size_t request = 0; request < kRequests; ++request) {
    Region outer;
    for (std::size_t i = 0; i < kInner; ++i) Touched(outer, i);
    for (std::size_t part = 0; part < 10; ++part) {
      Region inner(&outer);
      for (std::size_t i = 0; i < kInner; ++i) Touched(inner, part * kInner + i);
    }
  }
  return kRequests * 11 * kInner;
}

template <typename Region, std::size_t kObjects>
std::size_t HalfFreed() {
  static std::vector<void*> objects(kObjects);
  for (std::size_t done = 0; done < kObjectsPerSample; done += kObjects) {
    Region region;
    for (std::size_t i = 0; i < kObjects; ++i) objects[i] = Touched(region, i);
    for (const std::uint32_t number : half) {
      if (number >= kObjects) break;
      region.Free(objects[number]);
    }
  }
  return kObjectsPerSample;
}

// In one region each object goes as the hundredth after it comes.
template <typename Region>
std::size_t Window() {
  constexpr std::size_t kWindow = 100;
  void* objects[kWindow] = {};
  Region region;
  for (std::size_t i = 0; i < kObjectsPerSample; ++i) {
    void*& object = objects[i % kWindow];
    if (object != nullptr) region.Free(object);
    object = Touched(region, i % kMany);
  }
  return kObjectsPerSample;
}

// In one region each second object goes at once, the others with it.
template <typename Region>
std::size_t SecondAtOnce() {
  Region region;
  for (std::size_t i = 0; i < kObjectsPerSample; ++i) {
    void* const object = Touched(region, i % kMany);
    if (i % 2 != 0) region.Free(object);
  }
  return kObjectsPerSample;
}

// A set of live objects of which one at random goes as another comes.
template <typename Heap, std::size_t kLive>
std::size_t Plain() {
  static std::vector<void*> objects(kLive);
  Heap heap;
  std::uint32_t random = 1;
  std::fill(objects.begin(), objects.end(), nullptr);
  for (std::size_t i = 0; i < kObjectsPerSample; ++i) {
    random = random * 1664525 + 1013904223;
    void*& object = objects[(random >> 8) % objects.size()];
    if (object != nullptr) heap.Free(object);
    object = Touched(heap, i % kMany);
  }
  for (void* const object : objects)
    if (object != nullptr) heap.Free(object);
  return kObjectsPerSample;
}

// Of the processor, the kernel's part included: other programs that run meanwhile do not count.
double Now() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return 1e9 * static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec);
}

double Nanoseconds(const std::function<std::size_t()>& work) {
  const double begin = Now();
  const std::size_t objects = work();
  return (Now() - begin) / static_cast<double>(objects);
}

// What `measure` returns in a process of its own.
double InChild(const std::function<double()>& measure) {
  int ends[2];
  if (pipe(ends) != 0) return 0;
  if (fork() == 0) {
    const double value = measure();
    _exit(write(ends[1], &value, sizeof value) == sizeof value ? 0 : 1);
  }
  double value = 0;
  close(ends[1]);
  if (read(ends[0], &value, sizeof value) != sizeof value) value = 0;
  close(ends[0]);
  wait(nullptr);
  return value;
}

template <typename Region>
std::size_t OneRegion() {
  Region region;
  for (std::size_t i = 0; i < kMany; ++i) Touched(region, i);
  return kMany;
}

// From the page tables: the count in statm is off by some pages.
std::size_t ResidentBytes() {
  std::size_t kibibytes = 0;
  char line[256];
  if (FILE* const file = fopen("/proc/self/smaps_rollup", "r")) {
    while (fgets(line, sizeof line, file) != nullptr)
      if (sscanf(line, "Rss: %zu kB", &kibibytes) == 1) break;
    fclose(file);
  }
  return kibibytes * 1024;
}

// What the first region of a process makes resident once and for all.
template <typename Region>
void Warm() {
  Region region;
  Touched(region, 0);
}

// What becomes resident for each byte asked for. With kPadded, an object counts as large as its
// word, of four bytes, and its alignment, of 16, make it.
template <typename Region, std::size_t kObjects, bool kPadded>
double Memory() {
  std::size_t asked = 0;
  for (std::size_t i = 0; i < kObjects; ++i)
    asked += kPadded ? (sizes[i] + 4 + 15u) & ~15u : sizes[i];
  Warm<Region>();
  ResidentBytes();
  const std::size_t before = ResidentBytes();
  Region region;
  for (std::size_t i = 0; i < kObjects; ++i) Touched(region, i);
  return static_cast<double>(ResidentBytes() - before) / static_cast<double>(asked);
}

struct Alternative {
  const char* name;
  std::function<double()> measure;
};

void Compare(const char* title, const std::vector<Alternative>& alternatives) {
  std::vector<std::vector<double>> values(alternatives.size());
  std::vector<std::size_t> order(alternatives.size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 drawn;
  for (int round = 0; round < kRounds; ++round) {
    std::shuffle(order.begin(), order.end(), drawn);
    for (const std::size_t i : order) values[i].push_back(alternatives[i].measure());
  }
  for (std::size_t i = 0; i < alternatives.size(); ++i) {
    printf("%s %s", title, alternatives[i].name);
    for (const double value : values[i]) printf(" %.4f", value);
    printf("\n");
  }
}

template <typename Region>
void Add(std::vector<Alternative>& alternatives, std::size_t (*work)()) {
  alternatives.push_back({Region::kName, [work] { return Nanoseconds(work); }});
}

template <typename Region>
void AddFresh(std::vector<Alternative>& alternatives) {
  alternatives.push_back(
      {Region::kName, [] { return InChild([] { return Nanoseconds(OneRegion<Region>); }); }});
}

template <typename Region, std::size_t kObjects, bool kPadded>
void AddMemory(std::vector<Alternative>& alternatives) {
  alternatives.push_back(
      {Region::kName, [] { return InChild(Memory<Region, kObjects, kPadded>); }});
}

template <typename Function>
void Find(void* object, const char* name, Function& function) {
  void* const symbol = dlsym(object, name);
  memcpy(&function, &symbol, sizeof symbol);
}

// Its calls of its own functions must not come to those of the library that is linked.
bool LoadSegregated(const char* path) {
  void* const object = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (object == nullptr) return false;
  Find(object, "reap_create", segregated.create);
  Find(object, "reap_destroy", segregated.destroy);
  Find(object, "reap_malloc", segregated.malloc);
  Find(object, "reap_free", segregated.free);
  return segregated.create != nullptr && segregated.create != reap_create;
}

bool LoadMimalloc(const char* path) {
  void* const object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) return false;
  Find(object, "malloc", mimalloc.malloc);
  Find(object, "free", mimalloc.free);
  Find(object, "mi_heap_new", mimalloc.heap_new);
  Find(object, "mi_heap_malloc", mimalloc.heap_malloc);
  Find(object, "mi_heap_destroy", mimalloc.heap_destroy);
  return mimalloc.malloc != nullptr && mimalloc.free != nullptr;
}

bool LoadJemalloc(const char* path) {
  void* const object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) return false;
  int (*numbers_of)(const char*, std::size_t*, std::size_t*) = nullptr;
  Find(object, "mallctlnametomib", numbers_of);
  Find(object, "mallctl", jemalloc.control);
  Find(object, "mallctlbymib", jemalloc.control_by_numbers);
  Find(object, "mallocx", jemalloc.allocate);
  Find(object, "dallocx", jemalloc.deallocate);
  std::size_t count = 3;
  return jemalloc.allocate != nullptr && jemalloc.deallocate != nullptr &&
         numbers_of("arena.0.reset", JemallocArena::reset, &count) == 0;
}

#ifdef HAVE_APR
#define ADD_APR(add) add
#else
#define ADD_APR(add)
#endif

// Before anything else has made memory resident. Children of a process without reaps.
void CompareFresh(bool with_arenas) {
  std::vector<Alternative> fresh;
  AddFresh<Bump>(fresh);
  AddFresh<Reap>(fresh);
  ADD_APR(AddFresh<Apr>(fresh);)
  if (mimalloc.heap_new != nullptr) AddFresh<MimallocHeap>(fresh);
  if (with_arenas) AddFresh<JemallocArena>(fresh);
  Compare("fresh", fresh);

  std::vector<Alternative> memory;
  AddMemory<Reap, kMany, true>(memory);
  Compare("memory_padded_100k", memory);
  memory.clear();
  AddMemory<Reap, 2 * kSome, true>(memory);
  Compare("memory_padded_2k", memory);
  memory.clear();
  AddMemory<Bump, kMany, false>(memory);
  AddMemory<Reap, kMany, false>(memory);
  AddMemory<SegregatedReap, kMany, false>(memory);
  ADD_APR((AddMemory<Apr, kMany, false>(memory));)
  if (mimalloc.heap_new != nullptr) AddMemory<MimallocHeap, kMany, false>(memory);
  if (with_arenas) AddMemory<JemallocArena, kMany, false>(memory);
  Compare("memory_100k", memory);
}

template <std::size_t kObjects>
void CompareRegions(const char* title, bool with_arenas) {
  std::vector<Alternative> regions;
  Add<Bump>(regions, Regions<Bump, kObjects>);
  Add<Reap>(regions, Regions<Reap, kObjects>);
  Add<CalledReap>(regions, Regions<CalledReap, kObjects>);
  Add<SegregatedReap>(regions, Regions<SegregatedReap, kObjects>);
  Add<ReapWith<REAP_SHARED>>(regions, Regions<ReapWith<REAP_SHARED>, kObjects>);
  Add<ReapWith<REAP_HARDENED>>(regions, Regions<ReapWith<REAP_HARDENED>, kObjects>);
  ADD_APR((Add<Apr>(regions, Regions<Apr, kObjects>));)
  if (mimalloc.heap_new != nullptr) Add<MimallocHeap>(regions, Regions<MimallocHeap, kObjects>);
  if (with_arenas) Add<JemallocArena>(regions, Regions<JemallocArena, kObjects>);
  Compare(title, regions);
}

template <std::size_t kObjects>
void CompareHalfFreed(const char* title, bool with_arenas) {
  std::vector<Alternative> freed;
  Add<Reap>(freed, HalfFreed<Reap, kObjects>);
  Add<SegregatedReap>(freed, HalfFreed<SegregatedReap, kObjects>);
  if (mimalloc.heap_new != nullptr) Add<MimallocHeap>(freed, HalfFreed<MimallocHeap, kObjects>);
  if (with_arenas) Add<JemallocArena>(freed, HalfFreed<JemallocArena, kObjects>);
  Compare(title, freed);
}

template <std::size_t kObjects, std::size_t kSize>
void CompareOfOneSize(const std::string& objects) {
  std::vector<Alternative> regions;
  Add<Bump>(regions, OfOneSize<Bump, kObjects, kSize>);
  Add<Reap>(regions, OfOneSize<Reap, kObjects, kSize>);
  Compare(("of_" + std::to_string(kSize) + "_bytes_" + objects).c_str(), regions);
}

template <std::size_t... kSizes>
void CompareSizes(std::index_sequence<kSizes...>) {
  (CompareOfOneSize<kMany, kSizes>("100k"), ...);
  (CompareOfOneSize<kSome, kSizes>("1k"), ...);
}

void CompareFreedMeanwhile() {
  std::vector<Alternative> window, second;
  Add<Reap>(window, Window<Reap>);
  Add<SegregatedReap>(window, Window<SegregatedReap>);
  Add<Reap>(second, SecondAtOnce<Reap>);
  Add<SegregatedReap>(second, SecondAtOnce<SegregatedReap>);
  if (mimalloc.heap_new != nullptr) {
    Add<MimallocHeap>(window, Window<MimallocHeap>);
    Add<MimallocHeap>(second, SecondAtOnce<MimallocHeap>);
  }
  Compare("window_100", window);
  Compare("second_at_once", second);
}

template <std::size_t kLive>
void ComparePlain(const char* title) {
  std::vector<Alternative> plain;
  Add<Reap>(plain, Plain<Reap, kLive>);
  Add<SegregatedReap>(plain, Plain<SegregatedReap, kLive>);
  Add<MimallocPlain>(plain, Plain<MimallocPlain, kLive>);
  if (mimalloc.heap_new != nullptr) Add<MimallocHeap>(plain, Plain<MimallocHeap, kLive>);
  Compare(title, plain);
}

}  // namespace

int main(int count, char** values) {
  if (count < 2 || !LoadSegregated(values[1])) return 2;
  const bool with_mimalloc = count > 2 && LoadMimalloc(values[2]);
  const bool with_arenas = count > 3 && LoadJemalloc(values[3]);
#ifdef HAVE_APR
  apr_initialize();
#endif
  CompareFresh(with_arenas);
  CompareRegions<kMany>("regions_100k", with_arenas);
  CompareRegions<kSome>("regions_1k", with_arenas);
  std::vector<Alternative> nested;
  Add<Bump>(nested, Nested<Bump>);
  Add<Reap>(nested, Nested<Reap>);
  Add<SegregatedReap>(nested, Nested<SegregatedReap>);
  ADD_APR(Add<Apr>(nested, Nested<Apr>);)
  if (mimalloc.heap_new != nullptr) Add<MimallocHeap>(nested, Nested<MimallocHeap>);
  if (with_arenas) Add<JemallocArena>(nested, Nested<JemallocArena>);
  Compare("nested", nested);
  CompareSizes(std::index_sequence<16, 32, 48, 64, 96, 128>());
  CompareFreedMeanwhile();
  CompareHalfFreed<kMany>("half_freed_100k", with_arenas);
  CompareHalfFreed<kSome>("half_freed_1k", with_arenas);
  if (with_mimalloc) {
    ComparePlain<kSome>("plain_1k");
    ComparePlain<10 * kSome>("plain_10k");
  }
  return 0;
}
