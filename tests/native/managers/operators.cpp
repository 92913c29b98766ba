// Each check uses operators new and delete as a program may, and ends the process where an answer
// is wrong.
//
// operators CHECK
#include <malloc.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#define CHECK(what)                                                   \
  do {                                                                \
    if (!(what)) {                                                    \
      std::fprintf(stderr, "line %d: not so: %s\n", __LINE__, #what); \
      std::exit(1);                                                   \
    }                                                                 \
  } while (0)

namespace {

struct alignas(256) Wide {
  char bytes[300];
};
template <typename T>
T* Opaque(T* p) {
  asm volatile("" : "+r"(p) : : "memory");
  return p;
}

void Variants() {
  for (std::size_t n = 1; n < 100000; n = n * 3 + 1) {
    ::operator delete(Opaque(::operator new(n)));
    ::operator delete(Opaque(::operator new(n)), n);
    ::operator delete[](Opaque(::operator new[](n)));
    ::operator delete[](Opaque(::operator new[](n)), n);
    ::operator delete(Opaque(::operator new(n, std::nothrow)), std::nothrow);
    ::operator delete[](Opaque(::operator new[](n, std::nothrow)), std::nothrow);
    for (std::size_t a = 16; a <= 8192; a *= 2) {
      const auto align = static_cast<std::align_val_t>(a);
      void* p = Opaque(::operator new(n, align));
      CHECK(reinterpret_cast<std::uintptr_t>(p) % a == 0);
      std::memset(p, 1, n);
      ::operator delete(p, align);
      ::operator delete(Opaque(::operator new(n, align)), n, align);
      ::operator delete[](Opaque(::operator new[](n, align)), align);
      ::operator delete[](Opaque(::operator new[](n, align)), n, align);
      ::operator delete(Opaque(::operator new(n, align, std::nothrow)), align, std::nothrow);
      ::operator delete[](Opaque(::operator new[](n, align, std::nothrow)), align, std::nothrow);
    }
  }
  auto wide = std::make_unique<Wide[]>(10);
  CHECK(reinterpret_cast<std::uintptr_t>(wide.get()) % 256 == 0);
}

void Containers() {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([t] {
      std::map<std::string, std::shared_ptr<std::string>> map;
      for (int i = 0; i < 20000; ++i) {
        map["key number " + std::to_string((i * 7919 + t) % 5000)] =
            std::make_shared<std::string>(std::size_t(i % 300), 'x');
      }
      CHECK(map.size() == 5000);
      for (const auto& [key, value] : map)
        CHECK(value->find_first_not_of('x') == std::string::npos);
    });
  }
  for (auto& thread : threads) thread.join();
}

void Exceptions() {
  int caught = 0;
  for (int i = 0; i < 1000; ++i) {
    try {
      throw std::string(std::size_t(i), 'e');
    } catch (const std::string& text) {
      caught += text.size() == std::size_t(i);
    }
  }
  CHECK(caught == 1000);
}

void Nothrow() {
  volatile std::size_t huge = std::size_t(1) << 62;
  CHECK(Opaque(::operator new(huge, std::nothrow)) == nullptr);
}

void BadAlloc() {
  volatile std::size_t huge = std::size_t(1) << 62;
  bool thrown = false;
  try {
    ::operator delete(Opaque(::operator new(huge)));
  } catch (const std::bad_alloc&) {
    thrown = true;
  }
  CHECK(thrown);
  struct Called {};
  std::set_new_handler([] { throw Called{}; });
  bool called = false;
  try {
    ::operator delete(Opaque(::operator new(huge)));
  } catch (const Called&) {
    called = true;
  }
  CHECK(called);
}

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string, void (*)()> tests = {{"variants", Variants},
                                                   {"containers", Containers},
                                                   {"exceptions", Exceptions},
                                                   {"nothrow", Nothrow},
                                                   {"bad_alloc", BadAlloc}};
  const auto found = tests.find(argc == 2 ? argv[1] : "");
  if (found == tests.end()) return 2;
  found->second();
  std::puts("done");
}
