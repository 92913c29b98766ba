// Handlers of signals that the program sets. They are counted as they run, and end a call that is
// on its way back from a stop, so that a wait which a stop interrupted is not begun again when a
// signal of the program's own came right after.
//
// The layer's handler stands for that of the program in the kernel, with the program's flags and
// mask.

#include <atomic>
#include <csignal>

#include "interruptions.hpp"
#include "next.hpp"
#include "process.hpp"
#include "tare/platform/exported.hpp"
#include "tare/platform/registers.hpp"

namespace tare {
namespace {

using Action = struct sigaction;

constexpr int kSignals = 64;
constinit std::atomic<sighandler_t> handlers[kSignals + 1]{};

// The two types of a handler share their place in an action.
void CountAndHandle(int number, siginfo_t* information, void* where) {
  Thread& t = thread;
  t.handled = t.handled + 1;
  EndCallOnItsWayBack(number, platform::ContextOfHandler(where), t);
  Action action{};
  action.sa_handler = handlers[number].load(std::memory_order_relaxed);
  action.sa_sigaction(number, information, where);
}

sighandler_t ForKernel() {
  Action action{};
  action.sa_sigaction = CountAndHandle;
  return action.sa_handler;
}

bool IsFunction(sighandler_t handler) {
  return handler != SIG_DFL && handler != SIG_IGN && handler != SIG_ERR && handler != SIG_HOLD;
}

// While it is there, the program's new handler of a signal is in place of the one before, unless it
// is none; `Keep` leaves it there.
class Replaced {
 public:
  Replaced(int number, sighandler_t handler)
      : place_(number >= 1 && number <= kSignals ? &handlers[number] : nullptr),
        counts_(place_ != nullptr && IsFunction(handler)) {
    if (place_ == nullptr) return;
    before_ = counts_ ? place_->exchange(handler) : place_->load();
  }
  ~Replaced() {
    if (counts_ && !keep_) place_->store(before_);
  }
  Replaced(const Replaced&) = delete;
  Replaced& operator=(const Replaced&) = delete;

  void Keep() { keep_ = true; }
  bool Counts() const { return counts_; }
  sighandler_t ForProgram(sighandler_t kernels) const {
    return kernels == ForKernel() ? before_ : kernels;
  }

 private:
  std::atomic<sighandler_t>* place_;
  bool counts_;
  bool keep_ = false;
  sighandler_t before_ = SIG_DFL;
};

template <SymbolName kName>
sighandler_t Set(int number, sighandler_t handler) {
  Replaced replaced(number, handler);
  const sighandler_t before = Next<kName, sighandler_t(int, sighandler_t)>::Call(
      number, replaced.Counts() ? ForKernel() : handler);
  if (before != SIG_ERR) replaced.Keep();
  return replaced.ForProgram(before);
}

}  // namespace
}  // namespace tare

EXPORT int sigaction(int number, const tare::Action* action, tare::Action* before) noexcept {
  using Real = tare::Next<"sigaction", int(int, const tare::Action*, tare::Action*)>;
  tare::Replaced replaced(number, action != nullptr ? action->sa_handler : SIG_DFL);
  tare::Action now{}, was{};
  if (action != nullptr) now = *action;
  if (replaced.Counts()) now.sa_handler = tare::ForKernel();
  const int result = Real::Call(number, action != nullptr ? &now : nullptr, &was);
  if (result != 0) return result;
  replaced.Keep();
  was.sa_handler = replaced.ForProgram(was.sa_handler);
  if (before != nullptr) *before = was;
  return result;
}

#define SET(symbol)                                                       \
  EXPORT sighandler_t symbol(int number, sighandler_t handler) noexcept { \
    return tare::Set<#symbol>(number, handler);                           \
  }
SET(signal)
SET(bsd_signal)
SET(ssignal)
SET(sysv_signal)
SET(__sysv_signal)
SET(sigset)
