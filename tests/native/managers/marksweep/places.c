// Objects to which the only pointers lie in one kind of place. places PLACE [LIBRARY]
// fills objects, hides them, makes much garbage of the same size with collections in between, and
// checks that the objects are as they were. `nowhere` is the control: there they must be gone.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <immintrin.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

extern void tare_marksweep_collect(void) __attribute__((weak));

enum { OBJECTS = 200, LARGE = 1 << 20 };
static size_t bytes = 100;
static int objects = OBJECTS;
static const uintptr_t kKey = 0x5a5a5a5a5a5a5a5a;

typedef void Keep(int index, char* object);

static char* fill(int index) {
  char* object = malloc(bytes);
  memset(object, 1 + index % 250, bytes);
  return object;
}

__attribute__((noinline)) static void make(Keep* keep) {
  for (int i = 0; i < objects; i++) keep(i, fill(i));
}

__attribute__((noinline)) static void scrub(void) {
  volatile char garbage[1 << 16];
  memset((char*)garbage, 0, sizeof garbage);
}

__attribute__((noinline)) static void churn(void) {
  for (int round = 0; round < 4; round++) {
    tare_marksweep_collect();
    const int count = bytes > 10000 ? 100 : 5000;
    for (int i = 0; i < count; i++) memset(malloc(bytes), 0xee, bytes);
  }
  scrub();
}

static int is_whole(int index, const char* object) {
  for (size_t i = 0; i < bytes; i++)
    if ((unsigned char)object[i] != 1 + index % 250) return 0;
  return 1;
}

static int damaged;
static void check(int index, const char* object) { damaged += !is_whole(index, object); }

// Places of which each object has one word.

static char* in_static[OBJECTS];
static __thread char* in_tls[OBJECTS];
static char** arena;
static char** in_heap;
static uintptr_t nowhere[OBJECTS];

static void keep_static(int i, char* object) { in_static[i] = object; }
static void keep_tls(int i, char* object) { in_tls[i] = object; }
static void keep_arena(int i, char* object) { arena[i] = object; }
static void keep_heap(int i, char* object) { in_heap[i] = object; }
static void keep_nowhere(int i, char* object) { nowhere[i] = (uintptr_t)object ^ kKey; }
static void keep_middle(int i, char* object) { in_static[i] = object + bytes * 9 / 10; }
static void keep_end(int i, char* object) { in_static[i] = object + bytes; }

static void check_all(char** place, ptrdiff_t offset) {
  for (int i = 0; i < objects; i++) check(i, place[i] - offset);
}

static void statics(void) { make(keep_static), scrub(), churn(), check_all(in_static, 0); }
static void tls(void) { make(keep_tls), scrub(), churn(), check_all(in_tls, 0); }
static void middle(void) {
  make(keep_middle), scrub(), churn(), check_all(in_static, bytes * 9 / 10);
}
static void end(void) { make(keep_end), scrub(), churn(), check_all(in_static, bytes); }
static void heap(void) {
  in_heap = malloc(sizeof *in_heap * OBJECTS);
  make(keep_heap), scrub(), churn(), check_all(in_heap, 0);
}
static void large(void) {
  bytes = LARGE, objects = 20;
  middle();
}
static void aligned(void) {
  for (int i = 0; i < objects; i++) {
    in_static[i] = memalign(256, bytes);
    memset(in_static[i], 1 + i % 250, bytes);
  }
  churn(), check_all(in_static, 0);
}
static void in_arena(void* at) {
  arena = at;
  make(keep_arena), scrub(), churn(), check_all(arena, 0);
}
static void mapped(void) {
  in_arena(mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}
static void sparse(void) {  // far inside of what is reserved but not used
  char* place = mmap(NULL, 1ul << 36, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  in_arena(place + (1ul << 35));
}
static void moved(void) {
  void* place = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  arena = place;
  make(keep_arena), scrub();
  arena = mremap(place, 1 << 16, 1 << 24, MREMAP_MAYMOVE);
  churn(), check_all(arena, 0);
}
static void sealed(void) {
  arena = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  make(keep_arena), scrub();
  mprotect(arena, 1 << 16, PROT_READ);
  churn(), check_all(arena, 0);
}
static void broken(void) { in_arena(sbrk(1 << 16)); }
static void none(void) {
  make(keep_nowhere), scrub(), churn();
  int gone = 0;
  for (int i = 0; i < objects; i++) gone += !is_whole(i, (char*)(nowhere[i] ^ kKey));
  damaged = gone < objects * 3 / 4;
}

// Places in a library that is loaded later.

static const char* library;
static void of_library(const char* name) {
  void* handle = dlopen(library, RTLD_NOW);
  char** (*place)(void) = (char** (*)(void))dlsym(handle, name);
  in_arena(place());
}
static void loaded(void) { of_library("place"); }
static void loaded_tls(void) { of_library("place_in_tls"); }

// Places of another thread.

static sem_t ready, done;
static volatile int stop, hidden_yet = 1;

static void with_thread(void* (*run)(void*)) {
  pthread_t thread;
  sem_init(&ready, 0, 0), sem_init(&done, 0, 0);
  pthread_create(&thread, NULL, run, NULL);
  sem_wait(&ready);
  while (!hidden_yet) usleep(100);
  churn();
  stop = 1;
  sem_post(&done);
  pthread_join(thread, NULL);
}
static void* hold_on_stack(void* unused) {
  char* mine[OBJECTS];
  for (int i = 0; i < objects; i++) mine[i] = fill(i);
  sem_post(&ready);
  sem_wait(&done);
  check_all(mine, 0);
  return unused;
}
static void* hold_in_tls(void* unused) {
  make(keep_tls), scrub();
  sem_post(&ready);
  sem_wait(&done);
  check_all(in_tls, 0);
  return unused;
}
static void* hold_in_register(void* unused) {
  uintptr_t hidden = (uintptr_t)fill(0) ^ kKey;
  scrub();
  hidden_yet = 0;
  sem_post(&ready);
  __asm__ volatile(
      "xor %1, %0\n\tmov %0, %%r12\n\tmov %1, %0\n\tmovl $1, %3\n"
      "1:\n\tcmpl $0, %2\n\tje 1b\n\tmov %%r12, %0\n\txor %%r12d, %%r12d"
      : "+r"(hidden)
      : "r"(kKey), "m"(stop), "m"(hidden_yet)
      : "r12", "memory");
  check(0, (char*)hidden);
  return unused;
}
__attribute__((target("avx2"))) static void* hold_in_vector(void* unused) {
  uintptr_t hidden = (uintptr_t)fill(0) ^ kKey;
  scrub();
  hidden_yet = 0;
  sem_post(&ready);
  __asm__ volatile(
      "vmovq %0, %%xmm8\n\tvmovq %1, %%xmm9\n\tvpxor %%xmm8, %%xmm9, %%xmm8\n\t"
      "vinserti128 $1, %%xmm8, %%ymm8, %%ymm8\n\tvpxor %%xmm9, %%xmm9, %%xmm9\n\t"
      "vperm2i128 $0x18, %%ymm8, %%ymm8, %%ymm8\n\tmov %1, %0\n\tmovl $1, %3\n"
      "1:\n\tcmpl $0, %2\n\tje 1b\n\t"
      "vextracti128 $1, %%ymm8, %%xmm8\n\tvmovq %%xmm8, %0\n\tvzeroall"
      : "+r"(hidden)
      : "r"(kKey), "m"(stop), "m"(hidden_yet)
      : "xmm8", "xmm9", "memory");
  check(0, (char*)hidden);
  return unused;
}
static void* hold_as_specific(void* unused) {
  static pthread_key_t keys[100];
  for (int i = 0; i < 100; i++) pthread_key_create(&keys[i], NULL);
  for (int i = 0; i < 100; i++) pthread_setspecific(keys[i], fill(i));
  scrub();
  sem_post(&ready);
  sem_wait(&done);
  for (int i = 0; i < 100; i++) check(i, pthread_getspecific(keys[i]));
  return unused;
}
static void thread_stack(void) { with_thread(hold_on_stack); }
static void thread_tls(void) { with_thread(hold_in_tls); }
static void reg(void) { with_thread(hold_in_register); }
static void vector(void) {
  if (__builtin_cpu_supports("avx2")) with_thread(hold_in_vector);
}
static void specific(void) { with_thread(hold_as_specific); }

// Other stacks.

static ucontext_t main_context, coroutine;
static void in_coroutine(void) {
  char* mine[OBJECTS];
  for (int i = 0; i < objects; i++) mine[i] = fill(i);
  swapcontext(&coroutine, &main_context);
  check_all(mine, 0);
}
static void run_coroutine(void* stack, size_t size) {
  getcontext(&coroutine);
  coroutine.uc_stack.ss_sp = stack;
  coroutine.uc_stack.ss_size = size;
  coroutine.uc_link = &main_context;
  makecontext(&coroutine, in_coroutine, 0);
  swapcontext(&main_context, &coroutine);
  scrub(), churn();
  swapcontext(&main_context, &coroutine);
}
static void coroutine_mapped(void) {
  run_coroutine(mmap(NULL, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                1 << 18);
}
static void coroutine_malloced(void) {
  static void* stack;
  stack = malloc(1 << 18);
  run_coroutine(stack, 1 << 18);
}
static void collect_on_stack(void) {
  char* mine[OBJECTS];
  for (int i = 0; i < objects; i++) mine[i] = fill(i);
  churn();
  check_all(mine, 0);
}
static void coroutine_collects(void) {
  static void* stack;
  char* mine[OBJECTS];
  for (int i = 0; i < objects; i++) mine[i] = fill(i);
  stack = malloc(1 << 18);
  getcontext(&coroutine);
  coroutine.uc_stack.ss_sp = stack;
  coroutine.uc_stack.ss_size = 1 << 18;
  coroutine.uc_link = &main_context;
  makecontext(&coroutine, collect_on_stack, 0);
  swapcontext(&main_context, &coroutine);
  check_all(mine, 0);
}
static void handle(int number) {
  (void)number;
  collect_on_stack();
}
static void signal_stack(void) {
  char* mine[OBJECTS];
  for (int i = 0; i < objects; i++) mine[i] = fill(i);
  static char* memory;
  memory = malloc(1 << 18);
  const stack_t stack = {memory, 0, 1 << 18};
  sigaltstack(&stack, NULL);
  struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
  sigaction(SIGUSR1, &action, NULL);
  raise(SIGUSR1);
  check_all(mine, 0);
}
static void* sleep_on_signal_stack(void* unused) {
  char* mine[OBJECTS];
  for (int i = 0; i < objects; i++) mine[i] = fill(i);
  static char memory[1 << 16];
  const stack_t stack = {memory, 0, sizeof memory};
  sigaltstack(&stack, NULL);
  sem_post(&ready);
  sem_wait(&done);
  check_all(mine, 0);
  return unused;
}
static void with_signal_stack(void) { with_thread(sleep_on_signal_stack); }

// The kernel.

static int poller;
static void keep_epoll(int i, char* object) {
  (void)i;
  struct epoll_event event = {EPOLLIN, {.ptr = object}};
  epoll_ctl(poller, EPOLL_CTL_ADD, eventfd(1, 0), &event);
}
static void in_epoll(void) {
  poller = epoll_create1(0);
  make(keep_epoll), scrub(), churn();
  static struct epoll_event events[OBJECTS];
  int seen[256] = {0};
  const int count = epoll_wait(poller, events, OBJECTS, 0);
  for (int i = 0; i < count; i++) seen[*(unsigned char*)events[i].data.ptr]++;
  damaged = count != OBJECTS || seen[0xee] != 0;
}

static const struct {
  const char* name;
  void (*run)(void);
} kPlaces[] = {
    {"nowhere", none},
    {"static", statics},
    {"tls", tls},
    {"middle", middle},
    {"end", end},
    {"heap", heap},
    {"large", large},
    {"aligned", aligned},
    {"mapped", mapped},
    {"sparse", sparse},
    {"moved", moved},
    {"sealed", sealed},
    {"sbrk", broken},
    {"loaded", loaded},
    {"loaded-tls", loaded_tls},
    {"thread-stack", thread_stack},
    {"thread-tls", thread_tls},
    {"register", reg},
    {"vector", vector},
    {"specific", specific},
    {"coroutine", coroutine_mapped},
    {"coroutine-on-heap", coroutine_malloced},
    {"coroutine-collects", coroutine_collects},
    {"signal-stack", signal_stack},
    {"thread-with-signal-stack", with_signal_stack},
    {"epoll", in_epoll},
};

int main(int count, char** arguments) {
  if (count < 2 || tare_marksweep_collect == NULL) return 2;
  if (count > 2) library = arguments[2];
  for (size_t i = 0; i < sizeof kPlaces / sizeof *kPlaces; i++) {
    if (strcmp(kPlaces[i].name, arguments[1]) != 0) continue;
    kPlaces[i].run();
    return damaged != 0;
  }
  return 2;
}
