/* managers/marksweep: markers share what is left to search, and end when nobody has any.
 *
 * Each span that a marker searches may lead to others, as long as there are OBJECTS left to find. A
 * helper that cannot be begun counts as idle, and memory for shared spans may be short. Locks are
 * held for a step.
 */

#ifndef MARKERS
#define MARKERS 3
#endif
#ifndef OBJECTS
#define OBJECTS 4
#endif
#define WORTH_IT 2 /* the source has more */

byte spans, count, idle, unfound = OBJECTS;

/* For what is asserted. */
byte own[MARKERS], searched, lost;
bool ended;

#define TAKEN ((spans + 1) / 2)

/* True in `some` when there were spans to take. */
inline TakeSome() {
  atomic { /*> const std::scoped_lock guard(lock_); */
    some = spans != 0;
    taken = TAKEN; /*> const std::size_t count = std::min(kMost, (spans_.Size() + 1) / 2); */
    own[me] = own[me] + taken; /*> for (std::size_t i = 0; i < count; ++i) take(spans_.Take()); */
    spans = spans - taken;
    count = spans /*> count_.store(spans_.Size(), std::memory_order_release); */
  }
}

inline Give(given) {
  atomic { /*> const std::scoped_lock guard(lock_); */
    if
    :: spans = spans + given
    :: lost = lost + given
       /*> if (!spans_.Add(spans[i])) overflowed_.store(true, std::memory_order_relaxed); */
    fi;
    own[me] = own[me] - given;
    count = spans /*> count_.store(spans_.Size(), std::memory_order_release); */
  }
}

/* False in `some` when there is no work left in any marker. */
inline Await() {
  TakeSome(); /*> if (TakeSome(take)) return true; */
  if
  :: some
  :: else ->
    idle++; /*> idle_.fetch_add(1, std::memory_order_acq_rel); */
    do
    :: idle == MARKERS -> break
       /*> if (idle_.load(std::memory_order_acquire) == markers_) return false; */
    :: idle != MARKERS && count != 0 -> /*> if (count_.load(std::memory_order_acquire) != 0) { */
      idle--; /*> idle_.fetch_sub(1, std::memory_order_acq_rel); */
      TakeSome(); /*> if (TakeSome(take)) return true; */
      if
      :: some -> break
      :: else -> idle++ /*> idle_.fetch_add(1, std::memory_order_acq_rel); */
      fi
    od
  fi
}

inline Drain() {
  do
  :: own[me] > 0 ->
    if
    :: idle != 0 && own[me] >= WORTH_IT -> /*> if (shared->IsWanted()) Share(*shared); */
      Give(own[me] / 2) /*> shared.Give(stack_.begin(), size / 2); */
    :: true
    fi;
    atomic { own[me]--; searched++; assert(!ended) }
    do
    :: atomic { unfound > 0 -> unfound--; own[me]++ }
    :: break
    od
  :: else -> break
  od
}

proctype Marker(byte me) {
  byte taken;
  bool some;
  do
  :: Drain(); /*> do Drain<true>(&shared); */
    Await(); /*> while (shared.Await([this](const Span& span) { Push(span); })); */
    if
    :: some
    :: else -> break
    fi
  od;
  ended = true
}

/* The first marker begins the others. */
init {
  byte id = 1;
  atomic {
    spans = 2; count = 2; unfound = unfound - 2; /*> shared_.Give(roots.begin(), roots.Size()); */
    do
    :: id < MARKERS -> id++; run Marker(id - 1)
    :: id < MARKERS -> id++; idle++
       /*> if (!StartHelper(Help, &helper, stacks_ + i * kHelperStack, helper.running))
          shared_.Leave(); */
    :: else -> break
    od;
    run Marker(0)
  }
  _nr_pr == 1; /*> for (std::size_t i = 1; i < most; ++i) AwaitHelper(helpers_[i].running); */
  assert(searched + lost == OBJECTS - unfound && spans == 0)
}
