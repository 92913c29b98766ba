// What a benchmark takes of the memory manager, for each iteration: instructions in it, objects,
// bytes. The figures are those of `tare count`; where a program runs by itself nothing is counted,
// and nothing is reported.
//
// Include it after the header of Google Benchmark or of Catch2. C++11, nothing to link. README.md
// shows the use.

#ifndef TARE_BENCHMARK_HPP
#define TARE_BENCHMARK_HPP

#include <cstdint>
#include <sstream>
#include <string>
#include <utility>

namespace tare {

// Of the whole process, all its threads, so far.
struct Counts {
  std::uint64_t instructions;
  std::uint64_t manager_instructions;
  std::uint64_t objects;
  std::uint64_t bytes;
  std::uint64_t live_bytes;
  std::uint64_t peak_bytes;  // the most of live_bytes since the last read with new_peak
};

// Whether this process is counted: it then fills `counts`.
inline bool read(Counts& counts, bool new_peak = false) {
  std::uint64_t filled = 0;
#if defined(__x86_64__) && defined(__linux__)
  constexpr std::uint64_t kWords = sizeof(Counts) / sizeof(std::uint64_t);
  // A request to Valgrind: rotations that change nothing on a processor.
  volatile std::uint64_t request[6] = {
      0x54410007, reinterpret_cast<std::uintptr_t>(&counts), kWords, new_peak, 0, 0};
  __asm__ volatile(
      "rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx"
      : "+d"(filled)
      : "a"(&request[0])
      : "cc", "memory");
  return filled == kWords;
#else
  (void)counts, (void)new_peak;
  return false;
#endif
}

#ifdef BENCHMARK_BENCHMARK_H_

// Before the loop of a benchmark: `tare::Counted counted(state);`. What comes to pass until the end
// of the block becomes counters of the benchmark, divided by its iterations.
class Counted {
 public:
  explicit Counted(benchmark::State& state) : state_(state), begin_(), is_counted_(read(begin_)) {}
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

  ~Counted() {
    Counts end;
    // The counts are of all threads, and the counters of threads are added up.
    if (!is_counted_ || !read(end) || state_.thread_index() != 0) return;
    set("objects", end.objects - begin_.objects);
    set("bytes", end.bytes - begin_.bytes);
    set("manager_instructions", end.manager_instructions - begin_.manager_instructions);
    set("instructions", end.instructions - begin_.instructions);
  }

 private:
  void set(const char* name, std::uint64_t value) {
    using benchmark::Counter;
    state_.counters[name] = Counter(static_cast<double>(value), Counter::kAvgIterations);
  }

  benchmark::State& state_;
  Counts begin_;
  bool is_counted_;
};

// Gives Google Benchmark's own figures of memory (allocs_per_iter, max_bytes_used, …), which are in
// its JSON. Registered by itself in a process that is counted; main() may register another.
class MemoryManager final : public benchmark::MemoryManager {
 public:
  void Start() { read(begin_, true); }

  // Up to Google Benchmark 1.7 the result is a pointer, from 1.8 on there is the reference alone.
  void Stop(Result* result) { Stop(*result); }
  void Stop(Result& result) {
    Counts end;
    read(end);
    result.num_allocs = static_cast<std::int64_t>(end.objects - begin_.objects);
    result.max_bytes_used = static_cast<std::int64_t>(end.peak_bytes - begin_.live_bytes);
    result.total_allocated_bytes = static_cast<std::int64_t>(end.bytes - begin_.bytes);
    result.net_heap_growth = static_cast<std::int64_t>(end.live_bytes - begin_.live_bytes);
  }

 private:
  Counts begin_{};
};

inline bool register_memory_manager() {
  static MemoryManager manager;
  Counts counts;
  if (read(counts)) benchmark::RegisterMemoryManager(&manager);
  return true;
}

namespace {
__attribute__((unused)) const bool is_registered = register_memory_manager();
}

#endif

#if defined(CATCH_CONFIG_ENABLE_BENCHMARKING) || defined(CATCH_BENCHMARK_HPP_INCLUDED)

// What TARE_BENCHMARK is made of. In a process that is counted the body runs some times and its
// counts are told, as a warning so that every reporter shows them: times would mean nothing there.
class Benchmark {
 public:
  explicit Benchmark(std::string name) : name_(std::move(name)) {}
  explicit operator bool() const { return true; }

  template <typename Body>
  void operator=(Body body) {
    Counts begin, end;
    if (!read(begin)) {
      Catch::Benchmark::Benchmark timed(std::move(name_));
      timed = body;
      return;
    }
    constexpr int kWarmups = 1, kIterations = 16;
    for (int i = -kWarmups; i < kIterations; ++i) {
      if (i == 0) read(begin);
      Catch::Benchmark::invoke_deoptimized(body, i + kWarmups);
    }
    read(end);
    std::ostringstream text;
    text << name_ << ", an iteration: ";
    const auto put = [&](std::uint64_t count, const char* what) {
      text << static_cast<double>(count) / kIterations << what;
    };
    put(end.objects - begin.objects, " objects, ");
    put(end.bytes - begin.bytes, " bytes, ");
    put(end.manager_instructions - begin.manager_instructions, " manager_instructions of ");
    put(end.instructions - begin.instructions, " instructions");
    WARN(text.str());
  }

 private:
  std::string name_;
};

// As Catch2's BENCHMARK.
#define TARE_BENCHMARK(name) TARE_BENCHMARK_NAMED(INTERNAL_CATCH_UNIQUE_NAME(tare_benchmark_), name)
#define TARE_BENCHMARK_NAMED(variable, name) \
  if (tare::Benchmark variable{name}) variable = [&](int)

#endif

}  // namespace tare

#endif
