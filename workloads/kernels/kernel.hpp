// What the kernels share: arguments, random numbers, blocks that are written and read back.
//
// Rules every kernel keeps:
//  - the work done depends on the arguments alone, never on addresses, time or thread order;
//  - it prints one line, "checksum HEX", computed from what was read back from its blocks, so a
//    manager that hands out overlapping or damaged memory changes the output;
//  - every cache line that is allocated is written, and read again before it is freed.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

namespace kernel {

struct Options {
  double scale = 1.0;
  std::uint64_t seed = 1;
  unsigned threads = 1;

  // The number of steps for this scale, at least one.
  std::size_t steps(std::size_t at_scale_one) const {
    const double wanted = static_cast<double>(at_scale_one) * scale;
    return wanted < 1.0 ? 1 : static_cast<std::size_t>(wanted);
  }
};

struct About {
  const char* name;
  const char* text;
  unsigned threads = 0;  // default number of threads; 0: the kernel has one thread and no --threads
};

[[noreturn]] inline void usage_error(const About& about, const char* problem,
                                     std::string_view argument) {
  std::fprintf(stderr, "%s: %s: %.*s (see --help)\n", about.name, problem,
               static_cast<int>(argument.size()), argument.data());
  std::exit(2);
}

inline void print_help(const About& about) {
  std::printf("usage: %s [--scale X] [--seed N]%s\n\n%s\n\n", about.name,
              about.threads != 0 ? " [--threads N]" : "", about.text);
  std::printf(
      "  --scale X    amount of work, 1 by default (more than 0, at most 1000)\n"
      "  --seed N     seed of the random numbers, 1 by default\n");
  if (about.threads != 0) {
    std::printf("  --threads N  number of threads, %u by default (1 to 256)\n", about.threads);
  }
  std::printf("\nPrints a checksum that depends on the arguments and not on the allocator.\n");
}

template <typename Number>
Number parse_number(const About& about, std::string_view option, std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) {
    usage_error(about, option == "--scale" ? "--scale wants a number" : "not a whole number", text);
  }
  return number;
}

inline Options parse(int argc, char** argv, const About& about) {
  constexpr double kMaxScale = 1000.0;
  constexpr unsigned kMaxThreads = 256;
  Options options;
  options.threads = about.threads;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--help" || option == "-h") {
      print_help(about);
      std::exit(0);
    }
    const bool known =
        option == "--scale" || option == "--seed" || (option == "--threads" && about.threads != 0);
    if (!known) usage_error(about, "unknown argument", option);
    if (++i == argc) usage_error(about, "a value is missing after", option);
    const std::string_view text = argv[i];
    if (option == "--scale") {
      options.scale = parse_number<double>(about, option, text);
      // Written so that a NaN is refused too.
      if (!(options.scale > 0.0 && options.scale <= kMaxScale)) {
        usage_error(about, "--scale is out of range", text);
      }
    } else if (option == "--seed") {
      options.seed = parse_number<std::uint64_t>(about, option, text);
    } else {
      options.threads = parse_number<unsigned>(about, option, text);
      if (options.threads < 1 || options.threads > kMaxThreads) {
        usage_error(about, "--threads is out of range", text);
      }
    }
  }
  return options;
}

inline std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// SplitMix64: small, fast, the same everywhere; the standard distributions are not.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t stream) : state_(mix(seed) ^ mix(~stream)) {}

  std::uint64_t next() { return mix(state_ += 0x9e3779b97f4a7c15U); }

  // A number in [0, bound); bound must be below 2^32.
  std::size_t below(std::size_t bound) {
    return static_cast<std::size_t>(((next() >> 32) * bound) >> 32);
  }

  std::size_t between(std::size_t low, std::size_t high) { return low + below(high - low + 1); }

  // A number in [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

inline void* checked(void* memory) {
  if (memory == nullptr) {
    std::fputs("out of memory\n", stderr);
    std::exit(1);
  }
  return memory;
}

constexpr std::size_t kLine = 64;

// Writes one word in each cache line of a block of at least eight bytes, and the last word.
inline void fill(void* block, std::size_t size, std::uint64_t tag) {
  char* bytes = static_cast<char*>(block);
  for (std::size_t at = 0; at + sizeof tag <= size; at += kLine) {
    const std::uint64_t word = tag + at;
    std::memcpy(bytes + at, &word, sizeof word);
  }
  std::memcpy(bytes + size - sizeof tag, &tag, sizeof tag);
}

// Reads back what fill() wrote.
inline std::uint64_t digest(const void* block, std::size_t size) {
  const char* bytes = static_cast<const char*>(block);
  std::uint64_t word = 0;
  std::memcpy(&word, bytes + size - sizeof word, sizeof word);
  std::uint64_t sum = mix(word + size);
  for (std::size_t at = 0; at + sizeof word <= size; at += kLine) {
    std::memcpy(&word, bytes + at, sizeof word);
    sum += word;
  }
  return sum;
}

inline void* filled(std::size_t size, std::uint64_t tag) {
  void* block = checked(std::malloc(size));
  fill(block, size, tag);
  return block;
}

// A block that remembers its size.
struct Block {
  void* memory = nullptr;
  std::size_t size = 0;
};

inline Block make_block(std::size_t size, std::uint64_t tag) { return {filled(size, tag), size}; }

// Frees a block and returns the digest of what was in it.
inline std::uint64_t drop(Block& block) {
  if (block.memory == nullptr) return 0;
  const std::uint64_t sum = digest(block.memory, block.size);
  std::free(block.memory);
  block = {};
  return sum;
}

inline int finish(std::uint64_t sum) {
  std::printf("checksum %016llx\n", static_cast<unsigned long long>(mix(sum)));
  // A closed or full standard output must not pass for a run that succeeded.
  return std::fflush(stdout) == 0 ? 0 : 1;
}

}  // namespace kernel
