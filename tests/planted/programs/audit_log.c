// Serves requests, and notes each for an audit that looks at the last few. The notes stay for ever.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { REQUESTS = 400000, KEPT = 64, ACCOUNTS = 4096 };

struct note {
  struct note *earlier, *later;
  uint32_t account, amount, balance, kind;
};

static struct note *newest, *oldest;
static unsigned notes;
static uint32_t balances[ACCOUNTS];

static void note(uint32_t account, uint32_t amount) {
  struct note* entry = malloc(sizeof *entry);  // planted: leak
  *entry = (struct note){newest, NULL, account, amount, balances[account], amount % 3};
  if (newest != NULL) newest->later = entry;
  newest = entry;
  if (oldest == NULL) oldest = entry;
  ++notes;
#ifdef FIXED
  while (notes > KEPT) {
    struct note* next = oldest->later;
    next->earlier = NULL;
    free(oldest);
    oldest = next;
    --notes;
  }
#endif
}

static uint32_t audit(void) {
  uint32_t suspicious = 0;
  const struct note* entry = newest;
  for (unsigned i = 0; i < KEPT && entry != NULL; ++i, entry = entry->earlier)
    suspicious += entry->amount > entry->balance;
  return suspicious;
}

int main(void) {
  uint32_t seed = 13;
  uint64_t sum = 0;
  for (uint32_t i = 0; i < REQUESTS; ++i) {
    seed = seed * 1664525 + 1013904223;
    const uint32_t account = (seed >> 8) % ACCOUNTS, amount = seed >> 24;
    balances[account] += amount;
    note(account, amount);
    if (i % KEPT == 0) sum += audit();
  }
  for (uint32_t i = 0; i < ACCOUNTS; ++i) sum = sum * 31 + balances[i];
  printf("%llu\n", (unsigned long long)sum);
}
