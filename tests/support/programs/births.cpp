// An object by each way to be born, of a size of its own. The test has the table of them.
#include <malloc.h>

#include <cstdlib>
#include <cstring>
#include <new>

template <class T>
static T* keep(T* object) {
  asm volatile("" : "+r"(object) : : "memory");
  return object;
}

struct alignas(256) Wide {
  char bytes[256 * 9];
};

struct Thrower {
  char bytes[1017];
  Thrower();
};

[[gnu::noinline]] Thrower::Thrower() {
  if (keep(this) != nullptr) throw 1;
}

int main() {
  // A large object with one touch in its midst.
  char* large = keep(static_cast<char*>(std::calloc(100, 1'000'001)));
  *keep(large + 55'555'555) = 1;
  keep(large);
  std::free(large);

  // In place: what follows is free. Elsewhere: something follows.
  char* grows = keep(static_cast<char*>(std::malloc(3001)));
  grows = keep(static_cast<char*>(std::realloc(grows, 3002)));
  char* moves = keep(static_cast<char*>(std::malloc(3003)));
  void* follows = keep(std::malloc(3004));
  moves = keep(static_cast<char*>(std::realloc(moves, 200'005)));
  moves[200'004] = 2;
  std::free(follows);
  std::free(keep(std::realloc(moves, 3006)));
  std::free(keep(std::realloc(keep<void>(nullptr), 3007)));
  std::free(keep(reallocarray(keep<void>(nullptr), 12, 251)));
  if (std::realloc(keep(std::malloc(3008)), 0) != nullptr) return 1;
  std::free(grows);

  void* aligned = nullptr;
  if (posix_memalign(&aligned, 128, 3009) != 0) return 1;
  std::free(aligned);
  std::free(keep(aligned_alloc(512, 3584)));
  std::free(keep(memalign(1024, 3011)));
  std::free(keep(valloc(3013)));
  std::free(keep(pvalloc(3014)));
  std::free(keep(std::malloc(0)));

  ::operator delete(keep(::operator new(3015)));
  ::operator delete[](keep(::operator new[](3016)));
  ::operator delete(keep(::operator new(3017, std::nothrow)), std::nothrow);
  ::operator delete[](keep(::operator new[](3018, std::nothrow)), std::nothrow);
  ::operator delete(keep(::operator new(3019)), std::size_t{3019});
  ::operator delete(keep(::operator new(3020, std::align_val_t{64})), std::align_val_t{64});
  ::operator delete[](keep(::operator new[](3021, std::align_val_t{64}, std::nothrow)),
                      std::align_val_t{64}, std::nothrow);
  delete keep(new Wide);
  try {
    keep(new Thrower);
  } catch (int) {
  }
  keep(::operator new(3022));  // never given back
  char* used = keep(new char[3023]);
  std::memset(used, 1, 3023);
  delete[] used;
}
