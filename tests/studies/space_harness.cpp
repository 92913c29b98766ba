// Writes the resident pages of this process in two files: as the kernel's scan tells them, and as
// the entries of pagemap do. Exit status 3: this kernel has no scan.

#include <sys/mman.h>

#include <cstdio>

#include "snapshot.cpp"

void tare::recorder::NoteGone(const void*, std::size_t) {}  // there are no walks

namespace {

using namespace tare::recorder::snapshot;

void* Map(std::size_t bytes, int access) {
  return mmap(nullptr, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

template <typename PutPages>
bool WriteOne(const char* path, PutPages put) {
  Writer writer(path);
  const Moment moment{kMagic, 0, 1, 2, 0, 0, 1020};
  writer.Put(kMoment, &moment, sizeof moment);
  const bool good = put(writer);
  writer.Put(kMoment, &moment, sizeof moment);
  writer.Finish();
  return good;
}

}  // namespace

int main(int, char** words) {
  constexpr std::size_t kBytes = 8 << 20;
  auto* const touched = static_cast<volatile char*>(Map(kBytes, PROT_READ | PROT_WRITE));
  for (std::size_t at = 0; at < kBytes; at += 3 * 4096) touched[at] = 1;
  auto* const only_read = static_cast<volatile char*>(Map(kBytes, PROT_READ));
  char sum = 0;
  for (std::size_t at = 0; at < kBytes; at += 4096) sum = static_cast<char>(sum + only_read[at]);
  Map(std::size_t{1} << 40, PROT_NONE);  // nobody can read the entries of so much
  const Descriptor pagemap("/proc/self/pagemap", O_RDONLY);
  const auto scan = [&](Writer& writer) { return ScanPages(writer, pagemap.Get()); };
  const auto read_entries = [&](Writer& writer) {
    ReadPages(writer, pagemap.Get());
    return true;
  };
  // The first time touches pages of its own.
  for (int i = 0; i < 2; ++i) {
    if (!WriteOne(words[1], read_entries)) return 1;
    if (!WriteOne(words[2], scan)) return 3;
  }
  return sum;
}
