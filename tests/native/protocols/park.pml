/* managers/marksweep: one thread stops all others, and lets them go on.
 *
 * A thread collects. Another begins a third at some time; both enter and leave critical sections
 * and end. A signal that is pending comes at any time. A stop may be given up: threads come late.
 */

#ifndef COLLECTIONS
#define COLLECTIONS 2
#endif
#ifndef GIVEN_UP
#define GIVEN_UP 1 /* stops */
#endif
#ifndef WORK
#define WORK 1 /* critical sections of a thread */
#endif
#define THREADS 2 /* that are stopped */

byte epoch, arrived;

/* ParkedThreads: a set of threads, and the tag beside it, in one word. */
byte tag, parked;
#define BIT(id) (1 << id)
#define SIZE(set) ((set & 1) + (set >> 1))

/* The kernel: threads that it lists, signals that wait, who sleeps at a futex. */
bool runs[THREADS], sleeps[THREADS], collector_sleeps;
byte pending[THREADS];

/* For what is asserted. */
bool stopped, in_section[THREADS];

inline BeginEpoch() {
  /*> const std::uint32_t next = world.epoch.load(std::memory_order_relaxed) + 1; */
  next = epoch + 1;
  atomic { tag = next; parked = 0 } /*> world.parked.Begin(next); */
  epoch = next /*> world.epoch.store(next, std::memory_order_seq_cst); */
}

inline StartWorld() {
  stopped = false;
  BeginEpoch(); /*> BeginEpoch(); */
  atomic { sleeps[0] = false; sleeps[1] = false } /*> FutexWake(world.epoch); */
}

inline Ask(id) {
  atomic { if :: runs[id] -> pending[id]++ :: else fi }
}

/* `all` is whether all have arrived. */
inline AwaitArrivals() {
  do
  :: before = arrived;
     /*> const std::uint32_t arrived = world.arrived.load(std::memory_order_acquire); */
    if
    :: SIZE(parked) >= SIZE(asked) ->
       /*> if (world.parked.Size() >= world.asked.Size()) return true; */
      all = true;
      break
    :: else
    fi;
    atomic { /*> FutexWait(world.arrived, arrived, &kPatience); */
      if
      :: arrived == before -> collector_sleeps = true
      :: else
      fi
    }
    if
    :: !collector_sleeps /*> if (world.arrived.load(std::memory_order_relaxed) != arrived) { */
    :: given_up < GIVEN_UP -> given_up++; collector_sleeps = false; all = false; break
    :: (asked & 1) && !runs[0] && !(parked & 1) -> /*> if (!here && HasEnded(id)) { */
      collector_sleeps = false; asked = asked & ~1
    :: (asked & 2) && !runs[1] && !(parked & 2) ->
      collector_sleeps = false; asked = asked & ~2
    fi
  od
}

proctype Collector() {
  byte next, asked, before, given_up, collections, id;
  bool all, more;
  do
  :: collections < COLLECTIONS ->
    asked = 0; /*> world.asked.Clear(); */
    BeginEpoch(); /*> BeginEpoch(); */
    do
    :: more = false; /*> more = false; */
      id = 0;
      do
      :: id < THREADS -> /*> const bool listed = VisitThreads([&](pid_t id) { */
        if
        :: runs[id] && !(asked & BIT(id)) ->
           /*> if (id == self || IsAsked(id, likely) || !AskToStop(id)) return; */
          Ask(id);
          asked = asked | BIT(id); /*> room &= world.asked.Add(id); */
          more = true /*> more = true; */
        :: else
        fi;
        id++
      :: else -> break
      od;
      AwaitArrivals();
      if
      :: !all || !more -> break
      :: else
      fi
    od;
    if
    :: all ->
      stopped = true;
      assert(!in_section[0] && !in_section[1]);
      StartWorld()
    :: else -> StartWorld()
    fi;
    collections++
  :: else -> break
  od
}

/* What the program does. Signals come before it. */
#define Go() \
  do \
  :: pending[me] > 0 -> pending[me]--; HandleStop() \
  :: assert(!stopped); break \
  od

inline Park() {
  must_park = false; /*> thread.must_park = false; */
  seen = epoch; /*> const std::uint32_t epoch = world.epoch.load(std::memory_order_acquire); */
  if
  :: seen % 2 == 0 /*> if (epoch % 2 == 0) return; */
  :: else ->
    atomic {
      if
      :: tag == seen -> parked = parked | BIT(me); added = true
         /*> if (!world.parked.Add(self, epoch)) return; */
      :: else -> added = false
      fi
    }
    if
    :: added ->
      arrived++; /*> world.arrived.fetch_add(1, std::memory_order_release); */
      collector_sleeps = false; /*> FutexWake(world.arrived); */
      do
      :: epoch == seen -> /*> while (world.epoch.load(std::memory_order_acquire) == epoch) */
        atomic { /*> FutexWait(world.epoch, epoch, nullptr); */
          if
          :: epoch == seen -> sleeps[me] = true
          :: else
          fi
        }
        !sleeps[me]
      :: else -> break
      od
    :: else
    fi
  fi
}

inline HandleStop() {
  if
  :: depth > 0 -> must_park = true /*> t.must_park = true; */
  :: else -> Park()
  fi
}

proctype Thread(byte me) {
  byte depth, seen, sections;
  bool must_park, added;
  if
  :: me == 0 -> Go(); runs[1] = true; run Thread(1)
  :: else
  fi;
  do
  :: sections < WORK ->
    sections++;
    Go(); depth = depth + 1; /*> t.depth = t.depth + 1; */
    Go(); in_section[me] = true;
    Go(); in_section[me] = false;
    Go(); depth = depth - 1; /*> t.depth = t.depth - 1; */
    Go();
    if
    :: must_park -> Park() /*> if (t.depth == 0) ParkNow(); */
    :: else
    fi
  :: else -> break
  od;
  Go();
  assert(!must_park);
  atomic { runs[me] = false; pending[me] = 0 }
}

init { atomic { runs[0] = true; run Thread(0); run Collector() } }
