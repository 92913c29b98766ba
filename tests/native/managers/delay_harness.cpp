// The quarantine without a dynamic linker, over the allocator of a sanitizer: threads that
// allocate, free, hand objects to each other, end, and call for memory, in random order. Every
// object must be released exactly once; the sanitizer sees to once at most, the counters to once
// at least.
//
// delay_harness THREADS OBJECTS SEED SIZE SCOPE BUFFER POISON

#include <malloc.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "quarantine.hpp"

namespace {

std::atomic<std::uint64_t> freed = 0;
std::atomic<void*> mailbox[64];

void Work(int objects, unsigned seed) {
  const tare::FreeFunction free_object = tare::ChooseFree(tare::process.options);
  std::mt19937 random(seed);
  std::vector<void*> mine;
  const auto release = [&](void* object) {
    free_object(object);
    ++freed;
  };
  for (int i = 0; i < objects; ++i) {
    const std::size_t bytes = 1 + (random() % 100 == 0 ? random() % 100000 : random() % 200);
    void* const object = malloc(bytes);
    memset(object, 1, bytes);
    mine.push_back(object);
    if (random() % 3 == 0) {
      if (void* const other = mailbox[random() % 64].exchange(mine.back())) release(other);
      mine.pop_back();
    }
    while (mine.size() > random() % 100) {
      std::swap(mine[random() % mine.size()], mine.back());
      release(mine.back());
      mine.pop_back();
    }
    if (random() % 2000 == 0) tare::GiveBack();
  }
  for (void* const object : mine) release(object);
}

}  // namespace

int main(int count, char** values) {
  if (count != 8) return 2;
  const auto number = [&](int index) { return static_cast<unsigned>(atoi(values[index])); };
  tare::Options options;
  options.size = number(4);
  options.global = strcmp(values[5], "global") == 0;
  options.buffer = number(6);
  options.poison = strcmp(values[7], "yes") == 0;
  options.fifo = number(3) % 2 == 0;
  tare::process.inner = {free, malloc_usable_size, malloc, calloc, realloc};
  tare::Begin(options, nullptr);
  for (int generation = 0; generation < 3; ++generation) {
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < number(1); ++i)
      threads.emplace_back(Work, static_cast<int>(number(2)), number(3) + i);
    Work(static_cast<int>(number(2)), number(3) + 1000);
    for (std::thread& each : threads) each.join();
  }
  for (std::atomic<void*>& box : mailbox) {
    if (void* const object = box.load()) {
      tare::ChooseFree(options)(object);
      ++freed;
    }
  }
  tare::CloseThisThread();
  std::uint64_t released = tare::process.header->passed_objects.load();
  for (std::size_t i = 0; i < tare::process.header->slots.load(); ++i) {
    const tare::Slot& slot = tare::SlotsOf(tare::process.header)[i];
    released += slot.objects + slot.released_at_once;
  }
  if (released != freed) {
    std::printf("freed %lu objects, released %lu\n", static_cast<unsigned long>(freed),
                static_cast<unsigned long>(released));
    return 1;
  }
  return 0;
}
