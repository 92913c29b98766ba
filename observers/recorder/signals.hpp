// A scope that no signal's handler of this thread interrupts: what it has locked, a
// handler that allocates would wait for in vain.

#pragma once

#include <pthread.h>
#include <signal.h>

// A thread's own variable that can be reached without an allocation.
#define TARE_INITIAL_EXEC __attribute__((tls_model("initial-exec")))

namespace tare::recorder {

inline sigset_t BlockAllSignals() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  return before;
}

inline void RestoreSignals(const sigset_t& before) {
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

class BlockSignals {
 public:
  BlockSignals() : before_(BlockAllSignals()) {}
  ~BlockSignals() { RestoreSignals(before_); }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;

 private:
  const sigset_t before_;
};

}  // namespace tare::recorder
