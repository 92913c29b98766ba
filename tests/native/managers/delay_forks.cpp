// A fork while another thread releases the objects of the one that forks: each object is released
// once, in the parent and in each child. The allocator underneath takes its time, so that nearly
// every fork comes in the midst of a release.
//
// delay_forks FORKS

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "quarantine.hpp"

namespace {

constexpr std::size_t kObjects = 64;

struct Object {
  alignas(16) std::array<char, 48> bytes;
  std::atomic<int> releases;
};

std::array<Object, kObjects> objects;
std::atomic<bool> ended;

void ReleaseSlowly(void* object) {
  static_cast<Object*>(object)->releases.fetch_add(1);
  usleep(100);
}

std::size_t SizeOf(void*) { return sizeof objects[0].bytes; }

// Exits with 1 where an object was released more often than freed, with 2 where it is lost.
int Judge() {
  tare::CloseThisThread();
  for (const Object& object : objects) {
    if (object.releases > 1) return 1;
    if (object.releases < 1) return 2;
  }
  return 0;
}

int Fork() {
  const pid_t child = fork();
  if (child == 0) _exit(Judge());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}

}  // namespace

int main(int count, char** values) {
  if (count != 2) return 2;
  tare::Options options;
  options.size = std::size_t{1} << 30;
  tare::process.inner = {ReleaseSlowly, SizeOf, malloc, calloc, realloc};
  tare::Begin(options, nullptr);
  tare::HandleForks();
  const tare::FreeFunction free_object = tare::ChooseFree(options);
  std::thread seizer([] {
    while (!ended) tare::GiveBack();
  });
  std::array<int, 4> ends{};
  for (int left = atoi(values[1]); left > 0; --left) {
    for (Object& object : objects) {
      object.releases = 0;
      free_object(&object);
    }
    while (objects[kObjects / 4].releases == 0 && objects[0].releases == 0) usleep(10);
    ++ends[static_cast<std::size_t>(Fork())];
    tare::GiveBack();
  }
  ended = true;
  seizer.join();
  printf("good %d, released twice %d, lost %d, ended otherwise %d\n", ends[0], ends[1], ends[2],
         ends[3]);
  return ends[1] + ends[2] + ends[3] != 0;
}
