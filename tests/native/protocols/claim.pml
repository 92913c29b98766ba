/* managers/delay: who may touch the objects that a thread holds, itself or one that claimed them.
 *
 * Two threads free, claim each other's objects and end, in any order. What a thread stores waits in
 * a buffer until others see it: stores of release order come after all before them, others may
 * overtake. A barrier of membarrier empties the buffers of both. A wait is over when it can be.
 */

#ifndef TURNS /* frees and claims of the first thread, and of the second, before it ends */
#define TURNS 2, 0, 0, 2
#endif
#define TRIES 2 /* the source has more */
#ifndef WAITING
#define WAITING 2 /* stores of a thread */
#endif

/* What threads share. */
#define BUSY(id) (id)
#define CLAIMED(id) (2 + id)
#define TAKEN(id) (4 + id)
#define LIMIT(id) (6 + id) /* 0: nullptr */
#define HELD(id) (8 + id)  /* objects on the list */
#define LOCK 10
byte memory[11];

mtype = { RELAXED, RELEASE };
chan stores[2] = [WAITING] of { byte, byte, mtype };

/* For what is asserted. */
byte freed[2], released[2], touching[2];
bool linked[2];

#define OTHER (1 - me)
#define Store(what, value, order) stores[me]!what,value,order
#define Waits(what, value) stores[me]??[eval(what), eval(value), _]
#define Load(what) (Waits(what, 1) -> 1 : (Waits(what, 0) -> 0 : memory[what]))
/* What stays in order: two stores to one place. */
#define Overtake(what) \
  atomic { \
    !(Waits(what, 0) && Waits(what, 1)) && stores[me]??[eval(what), _, RELAXED] -> \
    stores[me]??eval(what),value,RELAXED; memory[what] = value \
  }

proctype Processor(byte me) {
  byte what, value;
end:
  do
  :: atomic { stores[me]?what,value,_ -> memory[what] = value }
  :: Overtake(BUSY(me))
  :: Overtake(HELD(me))
  :: Overtake(LIMIT(0))
  :: Overtake(LIMIT(1))
  :: Overtake(TAKEN(0))
  :: Overtake(TAKEN(1))
  :: Overtake(CLAIMED(OTHER))
  :: Overtake(LOCK)
  od
}

inline Touch(owner) {
  atomic { touching[owner]++; assert(touching[owner] == 1) }
  touching[owner]--
}

inline BecomeBusy() {
  Store(BUSY(me), 1, RELAXED) /*> t.busy.store(true, std::memory_order_relaxed); */
}

inline BecomeIdle() {
  Store(BUSY(me), 0, RELEASE) /*> t.busy.store(false, std::memory_order_release); */
}

inline Empty() {
  held = 0; /*> t.position = t.base; */
  Store(HELD(me), held, RELAXED);
  Store(LIMIT(me), 1, RELAXED) /*> SetLimit(t, left); */
}

inline AwaitClaim() {
  do
  :: Load(CLAIMED(me)) -> /*> while (t.claimed.load(std::memory_order_acquire)) { */
    BecomeIdle();
    memory[CLAIMED(me)] == 0; /*> sched_yield(); */
    BecomeBusy() /*> BecomeBusy(t); */
  :: else -> break
  od;
  if
  :: Load(TAKEN(me)) -> /*> if (!t.taken.load(std::memory_order_relaxed)) return; */
    Store(TAKEN(me), 0, RELAXED); /*> t.taken.store(false, std::memory_order_relaxed); */
    Empty() /*> Empty(t); */
  :: else
  fi
}

inline LetClaim() {
  BecomeIdle();  /*> BecomeIdle(t); */
  memory[LOCK] == 0; /*> sched_yield(); */
  BecomeBusy();  /*> BecomeBusy(t); */
  AwaitClaim()   /*> AwaitClaim(t); */
}

inline LockLists() {
  do
  :: atomic { memory[LOCK] == 0 -> memory[LOCK] = 1 }; break
  :: memory[LOCK] == 1 -> LetClaim()
  od
}

inline UnlockLists() {
  Store(LOCK, 0, RELEASE)
}

inline Collect() {
  Touch(me);
  released[me] = released[me] + held;
  Empty()
}

inline Free() {
  freed[me]++;
  BecomeBusy();
  if
  :: true -> /* the list is full, an object is timed, or the limit is taken away */
    AwaitClaim();
    Store(LIMIT(me), 1, RELAXED)
  :: Load(LIMIT(me))
  fi;
  Touch(me);
  held++;
  Store(HELD(me), held, RELAXED);
  if
  :: Collect()
  :: skip
  fi;
  BecomeIdle()
}

inline Claim() {
  Store(CLAIMED(OTHER), 1, RELEASE); /*> other.claimed.store(true, std::memory_order_release); */
  tries = 0;
  do
  :: tries < TRIES -> /*> for (int tries = 0; tries < kTries && !done; ++tries) { */
    tries++;
    Store(LIMIT(OTHER), 0, RELAXED); /*> other.limit.store(nullptr, std::memory_order_relaxed); */
    /*> if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0) break; */
    empty(stores[0]) && empty(stores[1]);
    if
    :: !Load(BUSY(OTHER)) -> /*> done = !other.busy.load(std::memory_order_acquire) && */
      if
      :: !Load(LIMIT(OTHER)) -> /*> other.limit.load(std::memory_order_relaxed) == nullptr; */
        Touch(OTHER); /*> done ? work() : static_cast<void>(sched_yield()); */
        released[OTHER] = released[OTHER] + memory[HELD(OTHER)];
        Store(TAKEN(OTHER), 1, RELAXED); /*> other.taken.store(true, std::memory_order_relaxed); */
        break
      :: else
      fi
    :: else
    fi
  :: else -> break
  od;
  Store(CLAIMED(OTHER), 0, RELEASE) /*> other.claimed.store(false, std::memory_order_release); */
}

inline GiveBack() {
  BecomeBusy();
  AwaitClaim();
  Collect();
  LockLists();
  if
  :: linked[OTHER] && !Load(TAKEN(OTHER)) -> Claim()
  :: else
  fi;
  UnlockLists();
  BecomeIdle()
}

inline Close() {
  BecomeBusy();
  AwaitClaim();
  LockLists();
  linked[me] = false;
  UnlockLists();
  Collect();
  BecomeIdle()
}

proctype Thread(byte me; byte frees; byte claims) {
  byte held, tries;
  do
  :: frees > 0 -> frees--; Free()
  :: claims > 0 -> claims--; GiveBack()
  :: frees == 0 && claims == 0 -> break
  od;
  Close();
  assert(freed[me] == released[me])
}

#define RunThreads(...) RunEach(__VA_ARGS__)
#define RunEach(a, b, c, d) run Thread(0, a, b); run Thread(1, c, d)

init {
  atomic {
    linked[0] = true; linked[1] = true;
    memory[LIMIT(0)] = 1; memory[LIMIT(1)] = 1;
    run Processor(0); run Processor(1); RunThreads(TURNS)
  }
}
