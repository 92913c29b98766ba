// Objects that are used in known ways at known times. Prints the names of the ways
// in the order of the first round, then in that of the second.
//
// Way k has an object of OBJECT + 64 k bytes, and a neighbour of NEIGHBOUR + k bytes which nothing
// uses. Object k is used first between markers k and k + 1, and last between markers
// COUNT + place and COUNT + place + 1, where place is that of k in the second round. A marker is
// the birth of an object of MARKER + number bytes.
#define _GNU_SOURCE
#include <fcntl.h>
#include <immintrin.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { OBJECT = 4160, NEIGHBOUR = 2048, MARKER = 60000, STEP = 7 };

static volatile uint64_t sink;
static char elsewhere[8192] __attribute__((aligned(64)));
static int ends[2];  // a pair of sockets
static int has_avx2;

#define AVX2 __attribute__((target("avx2"), noinline))
#define ASM __asm__ volatile

AVX2 static void load_32(char* p) { ASM("vmovdqu (%0), %%ymm0" : : "r"(p) : "xmm0", "memory"); }
AVX2 static void store_32(char* p) { ASM("vmovdqu %%ymm0, (%0)" : : "r"(p) : "memory"); }
AVX2 static void stream_32(char* p) { ASM("vmovntdq %%ymm0, (%0)" : : "r"(p) : "memory"); }
AVX2 static void load_masked(char* p, int mask) {
  const __m256i lanes = _mm256_set_epi32(0, 0, 0, 0, 0, mask, 0, 0);
  ASM("vpmaskmovd (%0), %1, %%ymm1" : : "r"(p), "x"(lanes) : "xmm1", "memory");
}
AVX2 static void store_masked(char* p, int mask) {
  const __m256i lanes = _mm256_set_epi32(0, 0, 0, 0, 0, mask, 0, 0);
  ASM("vpmaskmovd %%ymm1, %1, (%0)" : : "r"(p), "x"(lanes) : "memory");
}
AVX2 static void gather(char* p) {
  __m256i to = _mm256_setzero_si256(), lanes = _mm256_set_epi32(0, 0, -1, 0, 0, 0, 0, 0);
  const __m256i at = _mm256_set1_epi32(5);
  ASM("vpgatherdd %1, (%2,%3,8), %0" : "+x"(to), "+x"(lanes) : "r"(p), "x"(at) : "memory");
}
static void recurse(volatile char* p, int depth) {
  if (depth > 0)
    recurse(p, depth - 1);
  else
    *p = 1;
}
static void send_some(void) {
  if (write(ends[1], elsewhere, 64) != 64) abort();
}
static void drain(void) {
  if (read(ends[1], elsewhere, sizeof elsewhere) <= 0) abort();
}

#define COPY_BY(instruction, from, to, times)                                \
  do {                                                                       \
    const void* source = (from);                                             \
    void* target = (to);                                                     \
    uint64_t count = (times);                                                \
    ASM(instruction : "+S"(source), "+D"(target), "+c"(count) : : "memory"); \
  } while (0)
#define FILL_BY(instruction, to, times)                                     \
  do {                                                                      \
    void* target = (to);                                                    \
    uint64_t count = (times);                                               \
    ASM(instruction : "+D"(target), "+c"(count) : "a"(0) : "memory", "cc"); \
  } while (0)

#define WAYS(WAY)                                                                                \
  WAY(load_8, sink = *(volatile uint8_t*)p)                                                      \
  WAY(load_16, sink = *(volatile uint16_t*)(p + 2))                                              \
  WAY(load_32, sink = *(volatile uint32_t*)(p + 4))                                              \
  WAY(load_64, sink = *(volatile uint64_t*)(p + 8))                                              \
  WAY(load_unaligned, sink = *(volatile uint64_t*)(p + 13))                                      \
  WAY(load_last_byte, sink = *(volatile uint8_t*)(p + size - 1))                                 \
  WAY(load_indexed, sink = ((volatile uint16_t*)p)[ends[0]])                                     \
  WAY(store_8, *(volatile uint8_t*)p = 1)                                                        \
  WAY(store_16, *(volatile uint16_t*)(p + 2) = 1)                                                \
  WAY(store_32, *(volatile uint32_t*)(p + 4) = 1)                                                \
  WAY(store_64, *(volatile uint64_t*)(p + 8) = 1)                                                \
  WAY(store_last_byte, *(volatile uint8_t*)(p + size - 1) = 1)                                   \
  WAY(store_without_cache, ASM("movnti %1, (%0)" : : "r"(p), "r"(1ul) : "memory"))               \
  WAY(add_to_memory, ASM("addl $1, (%0)" : : "r"(p) : "memory"))                                 \
  WAY(compare_with_memory, ASM("cmpq $1, 8(%0)" : : "r"(p) : "cc", "memory"))                    \
  WAY(push_from_memory, ASM("pushq (%0); popq %%rax" : : "r"(p) : "rax", "memory"))              \
  WAY(set_bit, ASM("btsq %1, (%0)" : : "r"(p), "r"(999ul) : "cc", "memory"))                     \
  WAY(conditional_move,                                                                          \
      ASM("cmpl $1, %1; cmoveq (%0), %%rax" : : "r"(p), "r"(2) : "rax", "cc", "memory"))         \
  WAY(sse_load_16, ASM("movdqu (%0), %%xmm0" : : "r"(p + 1) : "xmm0", "memory"))                 \
  WAY(sse_load_aligned, ASM("movaps (%0), %%xmm0" : : "r"(p) : "xmm0", "memory"))                \
  WAY(sse_store_16, ASM("movdqu %%xmm0, (%0)" : : "r"(p + 1) : "memory"))                        \
  WAY(sse_store_half, ASM("movhps %%xmm0, (%0)" : : "r"(p) : "memory"))                          \
  WAY(sse_bytes, ASM("maskmovdqu %%xmm0, %%xmm1" : : "D"(p) : "memory"))                         \
  WAY(float_load, ASM("addsd (%0), %%xmm0" : : "r"(p) : "xmm0", "memory"))                       \
  WAY(x87_load_80, ASM("fldt (%0); fstp %%st" : : "r"(p) : "memory"))                            \
  WAY(x87_store_80, ASM("fldz; fstpt (%0)" : : "r"(p) : "memory"))                               \
  WAY(x87_store_control, ASM("fnstcw (%0)" : : "r"(p) : "memory"))                               \
  WAY(save_all, ASM("fxsave (%0)" : : "r"(p) : "memory"))                                        \
  WAY(restore_all, if (round == 0) ASM("fxsave (%0)" : : "r"(p) : "memory");                     \
      else ASM("fxrstor (%0)" : : "r"(p) : "memory"))                                            \
  WAY(avx_load_32, if (has_avx2) load_32(p + 1); else* p = 1)                                    \
  WAY(avx_store_32, if (has_avx2) store_32(p + 1); else* p = 1)                                  \
  WAY(avx_stream_32, if (has_avx2) stream_32(p); else* p = 1)                                    \
  WAY(avx_load_masked, if (has_avx2) load_masked(p, -1); else* p = 1)                            \
  WAY(avx_store_masked, if (has_avx2) store_masked(p, -1); else* p = 1)                          \
  WAY(avx_gather, if (has_avx2) gather(p); else* p = 1)                                          \
  WAY(copy_from, memcpy(elsewhere, p, 1000))                                                     \
  WAY(copy_to, memcpy(p + 100, elsewhere, 1000))                                                 \
  WAY(copy_much_from, memcpy(elsewhere, p, OBJECT))                                              \
  WAY(copy_much_to, memcpy(p, elsewhere, OBJECT))                                                \
  WAY(move_inside, memmove(p + 8, p, 500))                                                       \
  WAY(fill, memset(p, round, 300))                                                               \
  WAY(fill_all, memset(p, round, size))                                                          \
  WAY(rep_movsb_from, COPY_BY("rep movsb", p, elsewhere, 100))                                   \
  WAY(rep_movsb_to, COPY_BY("rep movsb", elsewhere, p, 100))                                     \
  WAY(rep_movsq_from, COPY_BY("rep movsq", p, elsewhere, 100))                                   \
  WAY(rep_movsq_to, COPY_BY("rep movsq", elsewhere, p, 100))                                     \
  WAY(rep_stosb, FILL_BY("rep stosb", p, 100))                                                   \
  WAY(rep_stosq, FILL_BY("rep stosq", p, 100))                                                   \
  WAY(repe_cmpsb, COPY_BY("repe cmpsb", p, elsewhere, 100))                                      \
  WAY(repne_scasb, FILL_BY("repne scasb", p, 100))                                               \
  WAY(one_movsb, COPY_BY("movsb", p, elsewhere, 1))                                              \
  WAY(lock_add, ASM("lock addq $1, (%0)" : : "r"(p) : "cc", "memory"))                           \
  WAY(lock_xadd, sink = __atomic_fetch_add((uint64_t*)p, 3, __ATOMIC_SEQ_CST))                   \
  WAY(lock_swap, sink = __atomic_exchange_n((uint64_t*)p, 3, __ATOMIC_SEQ_CST))                  \
  WAY(lock_cmpxchg, ASM("lock cmpxchgq %1, (%0)" : : "r"(p), "r"(5ul) : "rax", "cc", "memory"))  \
  WAY(lock_cmpxchg16b,                                                                           \
      ASM("lock cmpxchg16b (%0)" : : "r"(p), "b"(5ul), "c"(6ul) : "rax", "rdx", "cc", "memory")) \
  WAY(string_length, if (round == 0) memset(p, 'x', 70), p[70] = 0; sink = strlen(p))            \
  WAY(string_compare, sink = (uint64_t)strcmp(p, "no"))                                          \
  WAY(string_find, sink = (uint64_t)memchr(p, 'q', 200))                                         \
  WAY(string_print, snprintf(p, 100, "%d", round))                                               \
  WAY(deep_down, recurse(p, 100))                                                                \
  WAY(kernel_reads, if (write(ends[0], p, 64) != 64) abort(); drain())                           \
  WAY(kernel_writes, send_some(); if (read(ends[0], p, 64) != 64) abort())                       \
  WAY(kernel_reads_inside, if (write(ends[0], p + 777, 9) != 9) abort(); drain())                \
  WAY(kernel_gathers, struct iovec v[] = {{elsewhere, 8}, {p, 8}};                               \
      if (writev(ends[0], v, 2) != 16) abort(); drain())                                         \
  WAY(kernel_scatters, struct iovec v[] = {{elsewhere, 8}, {p, 56}}; send_some();                \
      if (readv(ends[0], v, 2) != 64) abort())                                                   \
  WAY(kernel_sends, if (send(ends[0], p, 64, 0) != 64) abort(); drain())                         \
  WAY(kernel_receives, send_some(); if (recv(ends[0], p, 64, 0) != 64) abort())                  \
  WAY(kernel_describes, if (fstat(0, (struct stat*)p) != 0) abort())                             \
  WAY(kernel_opens, if (round == 0) strcpy(p, "/nonexistent"); sink = (uint64_t)open(p, 0))      \
  WAY(kernel_names, if (getcwd(p, 4000) == NULL) abort())                                        \
  WAY(kernel_waits, if (round == 0) memset(p, 0, 16); nanosleep((void*)p, NULL))                 \
  WAY(kernel_polls, if (round == 0) memset(p, 0, 8); sink = (uint64_t)poll((void*)p, 1, 0))      \
  WAY(kernel_is_random, if (getrandom(p, 32, 0) != 32) abort())                                  \
  WAY(nothing_prefetched, ASM("prefetcht0 (%0)" : : "r"(p)))                                     \
  WAY(nothing_addressed, ASM("lea 8(%0), %%rax" : : "r"(p) : "rax"))                             \
  WAY(nothing_repeated, COPY_BY("rep movsb", p, p + 9, 0))                                       \
  WAY(nothing_in_mask, if (has_avx2) load_masked(p, 0), store_masked(p, 0))                      \
  WAY(nothing_compared, sink = (uint64_t)memcmp(p, elsewhere, 0))                                \
  WAY(nothing_written, if (write(ends[0], p, 0) > 0) abort())                                    \
  WAY(nothing_of_it, sink = (uint64_t)p + 1)

typedef void Way(char* p, size_t size, int round);
#define DEFINE(name, ...)                                                             \
  __attribute__((noinline)) static void way_##name(char* p, size_t size, int round) { \
    (void)p, (void)size, (void)round;                                                 \
    __VA_ARGS__;                                                                      \
  }
#define PUT(name, ...) way_##name,
#define PUT_NAME(name, ...) #name,

WAYS(DEFINE)
static Way* const ways[] = {WAYS(PUT)};
static const char* const names[] = {WAYS(PUT_NAME)};
enum { COUNT = sizeof ways / sizeof *ways };
_Static_assert(COUNT % STEP != 0, "the second round must come to every way");

static void mark(int number) {
  char* volatile object = malloc((size_t)(MARKER + number));
  free(object);
}

int main(void) {
  static char *objects[COUNT], *neighbours[COUNT];
  has_avx2 = __builtin_cpu_supports("avx2");
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 1;
  for (int i = 0; i < COUNT; ++i) puts(names[i]);
  for (int i = 0; i < COUNT; ++i) puts(names[i * STEP % COUNT]);
  fflush(stdout);
  for (int k = 0; k < COUNT; ++k) {
    objects[k] = aligned_alloc(64, (size_t)(OBJECT + 64 * k));
    neighbours[k] = malloc((size_t)(NEIGHBOUR + k));
  }
  for (int i = 0; i < 2 * COUNT; ++i) {
    const int k = i < COUNT ? i : (i - COUNT) * STEP % COUNT;
    mark(i);
    ways[k](objects[k], (size_t)(OBJECT + 64 * k), i >= COUNT);
  }
  mark(2 * COUNT);
  for (int k = 0; k < COUNT; k += 2) {
    free(objects[k]);
    free(neighbours[k]);
  }
  return 0;
}
