// Decoders of what observers leave, with damaged input: decoders_fuzz STEM SEED MUTATIONS INPUT...,
// or, with -DFUZZER, libFuzzer with the stem in TARE_STEM. What is decoded is chosen by -DMERGE,
// -DLAST_SEEN or -DDESCRIPTION. An input holds the contents of several files: the length of each,
// in four bytes, comes before it. A decoder may refuse an input; it may not crash or go on for
// ever.

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#define main decoder_main
#if defined(MERGE)
#include "recorder/merge/main.cpp"
#elif defined(LAST_SEEN)
#include "jvm/trace/last_seen.cpp"
#elif defined(DESCRIPTION)
extern "C" {
const char* describe(char* text);
void* alone_give(std::size_t bytes);
}
#endif
#undef main

namespace {

using Bytes = std::vector<std::uint8_t>;

std::string stem;

#if defined(DESCRIPTION)

// A description can ask for caches of any size; what an input has taken ends with it.
alignas(16) std::array<std::byte, std::size_t{1} << 26> memory;
std::size_t given;
jmp_buf too_much;

void Decode(const Bytes& input) {
  std::string text(input.begin(), input.end());
  given = 0;
  if (setjmp(too_much) == 0) describe(text.data());
}

#else

#if defined(MERGE)
constexpr std::array kFiles = {"events", "stacks", "modules"};
#else
constexpr std::array kFiles = {"births", "pointers", "deaths", "marks"};
#endif

Bytes NextPart(const Bytes& input, std::size_t& at) {
  std::uint32_t bytes = 0;
  if (input.size() - at < sizeof bytes) return {};
  memcpy(&bytes, input.data() + at, sizeof bytes);
  at += sizeof bytes;
  const std::size_t length = std::min<std::size_t>(bytes, input.size() - at);
  const auto begin = input.begin() + static_cast<std::ptrdiff_t>(at);
  at += length;
  return {begin, begin + static_cast<std::ptrdiff_t>(length)};
}

void Decode(const Bytes& input) {
  std::size_t at = 0;
  for (const char* const name : kFiles) {
    const Bytes part = NextPart(input, at);
    std::ofstream file(stem + "." + name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(part.data()),
               static_cast<std::streamsize>(part.size()));
  }
  std::array<char*, 2> words = {nullptr, stem.data()};
  decoder_main(words.size(), words.data());
}

#endif

#ifndef FUZZER
Bytes Mutated(Bytes input, std::mt19937& chance) {
  const auto below = [&](std::size_t most) { return most == 0 ? 0 : chance() % most; };
  constexpr std::array<std::uint64_t, 6> kEdges = {0, 1, 0x7f, 0xffff'ffff, 1ull << 63, ~0ull};
  for (std::size_t left = 1 + below(8); left != 0 && !input.empty(); --left) {
    const std::size_t at = below(input.size()), rest = input.size() - at;
    const std::size_t bytes = std::min(rest, std::size_t{1} << below(4));
    const auto here = input.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(5)) {
      case 0:
        *here = static_cast<std::uint8_t>(chance());
        break;
      case 1:
        memcpy(&*here, &kEdges[below(kEdges.size())], bytes);
        break;
      case 2:
        input.erase(here, here + static_cast<std::ptrdiff_t>(bytes));
        break;
      case 3: {
        const Bytes again(here, here + static_cast<std::ptrdiff_t>(bytes));
        input.insert(here, again.begin(), again.end());
        break;
      }
      default:
        if (below(8) == 0) input.resize(at);
    }
  }
  return input;
}
#endif

}  // namespace

#if defined(DESCRIPTION)
void* alone_give(std::size_t bytes) {
  if (bytes > memory.size() - given) longjmp(too_much, 1);
  return memory.data() + std::exchange(given, given + ((bytes + 15) & ~std::size_t{15}));
}
#endif

#ifdef FUZZER
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t count) {
  if (stem.empty()) stem = getenv("TARE_STEM");
  Decode(Bytes(bytes, bytes + count));
  return 0;
}
#else
int main(int count, char** words) {
  if (count < 5) return 2;
  stem = words[1];
  std::mt19937 chance(static_cast<unsigned>(atoi(words[2])));
  std::vector<Bytes> inputs;
  for (int i = 4; i < count; ++i) {
    std::ifstream file(words[i], std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    Decode(inputs.back());
  }
  for (int left = atoi(words[3]); left > 0; --left)
    Decode(Mutated(inputs[chance() % inputs.size()], chance));
  puts("ok");
}
#endif
