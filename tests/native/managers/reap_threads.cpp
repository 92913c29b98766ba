// Threads that allocate in one shared reap, free each other's objects and come and go, while
// others have reaps of their own, nested in one shared reap.
//
// reap_threads THREADS OBJECTS

#include <tare/reap.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace {

std::atomic<unsigned char*> mailbox[64];

// The first byte of an object says what its others are.
bool IsIntact(const unsigned char* object) {
  for (int i = 1; i < 16; ++i)
    if (object[i] != object[0]) return false;
  return true;
}

void Work(reap_t* shared, int objects, unsigned seed) {
  std::mt19937 random(seed);
  reap_t* own = reap_create(shared);
  for (int i = 0; i < objects; ++i) {
    auto* const object =
        static_cast<unsigned char*>(reap_malloc(shared, 16 + random() % (i % 100 ? 200 : 50000)));
    memset(object, static_cast<int>(random() & 0xFF), 16);
    unsigned char* const other = mailbox[random() % 64].exchange(object);
    if (other != nullptr) {
      if (!IsIntact(other) || reap_of(other) != shared) abort();
      reap_free(shared, other);
    }
    memset(reap_malloc(own, 32), 1, 32);
    if (random() % 500 == 0) {
      reap_destroy(own);
      own = reap_create(shared);
    }
  }
  if (seed % 2) reap_destroy(own);
}

}  // namespace

int main(int count, char** values) {
  if (count != 3) return 2;
#ifdef TARE_REAP_SEGREGATED
  const unsigned shares[] = {REAP_SHARED};
#else
  const unsigned shares[] = {REAP_SHARED, REAP_SHARED | REAP_HARDENED};
#endif
  for (const unsigned options : shares) {
    reap_t* const shared = reap_create_with(nullptr, options);
    for (int round = 0; round < 3; ++round) {
      std::vector<std::thread> threads;
      for (int i = 0; i < atoi(values[1]); ++i)
        threads.emplace_back(Work, shared, atoi(values[2]), static_cast<unsigned>(10 * round + i));
      for (std::thread& thread : threads) thread.join();
      reap_statistics_t statistics;
      reap_get_statistics(shared, &statistics);
      if (statistics.allocated == 0) abort();
      for (auto& place : mailbox) reap_free(shared, place.exchange(nullptr));
      reap_get_statistics(shared, &statistics);
      if (statistics.allocated != 0) {
        fprintf(stderr, "%zu bytes are left\n", statistics.allocated);
        return 1;
      }
      reap_free_all(shared);
    }
    reap_destroy(shared);
  }
  return 0;
}
