// Pointers that only the kernel holds: what a program gives to epoll.

#include <sys/epoll.h>

#include <mutex>

#include "next.hpp"
#include "process.hpp"
#include "roots.hpp"
#include "tare/platform/exported.hpp"

namespace tare {
namespace {

struct Watched {
  int epoll, file;
  std::uint64_t data;
};

constinit OwnArray<Watched> watched;

// What was given for a file stays until another file has its number.
void Watch(int epoll, int file, std::uint64_t data) {
  const Critical critical;
  const std::scoped_lock guard(process.watched_lock);
  for (Watched& each : watched) {
    if (each.epoll != epoll || each.file != file) continue;
    each.data = data;
    return;
  }
  watched.Add({epoll, file, data});
}

}  // namespace

Span KernelHeld() {
  return {reinterpret_cast<Address>(watched.begin()), reinterpret_cast<Address>(watched.end())};
}

}  // namespace tare

EXPORT int epoll_ctl(int epoll, int operation, int file, epoll_event* event) noexcept {
  const int error = tare::Next<"epoll_ctl", int(int, int, int, epoll_event*)>::Call(
      epoll, operation, file, event);
  if (error == 0) tare::Watch(epoll, file, operation == EPOLL_CTL_DEL ? 0 : event->data.u64);
  return error;
}
