// Objects of sizes of their own, born by known paths of calls. The test has the table of them.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

#include <cstdlib>
#include <cstring>

#define HIDDEN extern "C" __attribute__((noinline, noipa))

template <class T>
static T* keep(T* object) {
  asm volatile("" : "+r"(object) : : "memory");
  return object;
}
#define BORN(size) keep(std::malloc(size))

HIDDEN void direct() { BORN(5001); }

HIDDEN void recursive(int depth) {
  if (depth > 0)
    recursive(depth - 1);
  else
    BORN(5002);
  keep(&depth);
}

HIDDEN void two_lines() {
  BORN(5003);
  BORN(5003);
}

using Function = void();
HIDDEN void called() { BORN(5004); }
HIDDEN void by_pointer(Function* function) {
  function();
  keep(&function);
}

struct Base {
  virtual ~Base() = default;
  virtual void make() = 0;
};
HIDDEN void of_virtual() { BORN(5005); }
struct Derived final : Base {
  void make() override {
    of_virtual();
    keep(this);
  }
};

// Its place on the stack is the callee's before that is entered.
HIDDEN void last_call() { BORN(5006); }
HIDDEN __attribute__((naked)) void jumps() { asm("jmp last_call"); }
HIDDEN __attribute__((naked)) void* jumps_to_malloc(std::size_t) { asm("jmp malloc@PLT"); }

HIDDEN void throws(int depth) {
  if (depth == 0) throw depth;
  throws(depth - 1);
  keep(&depth);
}
HIDDEN void catches() {
  try {
    throws(50);
  } catch (int) {
    BORN(5008);
  }
  BORN(5009);
}

static jmp_buf out;
HIDDEN void leaps(int depth) {
  if (depth == 0) longjmp(out, 1);
  leaps(depth - 1);
  keep(&depth);
}
HIDDEN void lands() {
  if (setjmp(out) == 0) leaps(50);
  BORN(5010);
}

HIDDEN void handler(int) { BORN(5011); }
HIDDEN void interrupted() {
  raise(SIGUSR1);
  BORN(5012);
}
static sigjmp_buf far_out;
HIDDEN void leaving_handler(int) {
  BORN(5013);
  siglongjmp(far_out, 1);
}
HIDDEN void left() {
  if (sigsetjmp(far_out, 1) == 0) raise(SIGUSR2);
  BORN(5014);
}

HIDDEN int compares(const void* left, const void* right) {
  BORN(5015);
  return std::memcmp(left, right, 1);
}
HIDDEN void sorts() {
  char letters[2] = {'b', 'a'};
  qsort(letters, 2, 1, compares);
}

HIDDEN void* in_thread(void*) {
  BORN(5016);
  return nullptr;
}
HIDDEN void after() { BORN(5017); }

HIDDEN void* in_deep_thread(void* depth) {
  recursive(*static_cast<int*>(depth));
  after();
  return nullptr;
}

static void on_stacks_of_signals() {
  static char other[1 << 16];
  const stack_t stack = {other, 0, sizeof other};
  sigaltstack(&stack, nullptr);
  struct sigaction action = {};
  action.sa_flags = SA_ONSTACK;
  action.sa_handler = handler;
  sigaction(SIGUSR1, &action, nullptr);
  action.sa_handler = leaving_handler;
  sigaction(SIGUSR2, &action, nullptr);
}

int main(int count, char** words) {
  if (count > 1) {
    int depth = std::atoi(words[1]);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, std::size_t{1} << 30);
    pthread_t thread;
    if (pthread_create(&thread, &attributes, in_deep_thread, &depth) != 0) return 1;
    pthread_join(thread, nullptr);
    return 0;
  }
  direct();
  recursive(80'000);
  two_lines();
  by_pointer(called);
  Derived derived;
  keep<Base>(&derived)->make();
  jumps();
  keep(jumps_to_malloc(5007));
  catches();
  lands();
  on_stacks_of_signals();
  interrupted();
  left();
  sorts();
  pthread_t thread;
  if (pthread_create(&thread, nullptr, in_thread, nullptr) != 0) return 1;
  pthread_join(thread, nullptr);
  after();
}
