/* observers/jvm/trace: threads record in one order, by a ring that one of them at a time empties.
 *
 * Each of THREADS threads has EVENTS events, births or not; somebody stops the log at any moment,
 * or it stops by itself after MOST births. Who waits goes on when there is something to do.
 */

#ifndef THREADS
#define THREADS 2
#endif
#ifndef EVENTS
#define EVENTS 3
#endif
#ifndef MOST
#define MOST 3
#endif
#define SLOTS 2
#define BATCH 2
#define PLACES 15

#define FREE 0
#define FILLED 1
#define TOO_LATE 2

bool stopped, locked, is_full;
byte taken, born, applied;
byte state[SLOTS], place_in[SLOTS], number_in[SLOTS];

/* For what is asserted. */
byte in_time_events, applied_events, applied_births;
bool is_over;

#define SLOT(place) (place % SLOTS)
/*> return ((place - atomic_load_explicit(&applied, memory_order_acquire)) & PLACES) < SLOTS; */
#define HAS_ROOM(place) (((place - applied) & PLACES) < SLOTS)
#define IS_FILLED (state[SLOT(applied)] != FREE)

/* True in `done` when there was one. */
inline ApplyAt() {
  here = state[SLOT(applied)];
  /*> const int kind = atomic_load_explicit(&slot->kind, memory_order_acquire); */
  if
  :: here == FREE -> done = false /*> if (kind == FREE) return false; */
  :: else ->
    if
    :: here == FILLED -> /*> if (kind != TOO_LATE) apply(kind, &slot->event); */
      assert(!is_over && place_in[SLOT(applied)] == applied);
      applied_events++;
      if
      :: number_in[SLOT(applied)] != 0 ->
        applied_births++;
        assert(number_in[SLOT(applied)] == applied_births && applied_births <= MOST)
      :: else
      fi
    :: else
    fi;
    state[SLOT(applied)] = FREE;
    /*> atomic_store_explicit(&slot->kind, FREE, memory_order_relaxed); */
    applied = (applied + 1) & PLACES;
    /*> atomic_store_explicit(&applied, (place + 1) & PLACES, memory_order_release); */
    done = true
  fi
}

inline ApplySome() {
  atomic { /*> if (pthread_mutex_trylock(&applying) != 0) return; */
    if
    :: !locked -> locked = true; tries = 0
    :: else -> tries = SLOTS + 1
    fi
  }
  if
  :: tries <= SLOTS ->
    do
    :: tries < SLOTS ->
      tries++;
      ApplyAt();
      /*> if (!apply_at(atomic_load_explicit(&applied, memory_order_relaxed))) break; */
      if
      :: done
      :: else -> break
      fi
    :: else -> break
    od;
    locked = false /*> pthread_mutex_unlock(&applying); */
  :: else
  fi
}

inline LogAdd() {
  atomic {
    place = taken; late = stopped; number = (is_birth -> born + 1 : 0);
    taken = (taken + 1) & PLACES; born = born + is_birth
    /*> const uint64_t before = atomic_fetch_add_explicit(&taken, PLACE + is_birth,
        memory_order_acq_rel); */
  }
  if
  :: !late && number > MOST ->
    is_full = true; /*> is_full = true; */
    stopped = true; /*> atomic_fetch_or_explicit(&taken, STOPPED, memory_order_acq_rel); */
    late = true
  :: else
  fi;
  in_time_events = in_time_events + !late;
  do
  :: !HAS_ROOM(place) -> /*> while (!has_room(place)) { */
    ApplySome(); /*> apply_some(); */
    HAS_ROOM(place) || (!locked && IS_FILLED) /*> wait_a_moment(); */
  :: else -> break
  od;
  place_in[SLOT(place)] = place; number_in[SLOT(place)] = number; /*> slot->event = (struct event){value, first, second}; */
  state[SLOT(place)] = (late -> TOO_LATE : FILLED);
  /*> atomic_store_explicit(&slot->kind, in_time ? (int)kind : TOO_LATE, memory_order_release); */
  if
  :: place % BATCH == BATCH - 1 -> ApplySome()
     /*> if (place % BATCH == BATCH - 1) apply_some(); */
  :: else
  fi
}

proctype Thread() {
  byte made, place, number, here, tries;
  bool is_birth, late, done;
  do
  :: made < EVENTS && !stopped -> /*> if (log_is_stopped()) return 0; */
    made++;
    if
    :: is_birth = true
    :: is_birth = false
    fi;
    LogAdd()
  :: else -> break
  od
}

proctype Stop() {
  byte end, here;
  bool done;
  atomic { end = taken; stopped = true }
  /*> const uint64_t end = atomic_fetch_or_explicit(&taken, STOPPED, memory_order_acq_rel) / PLACE; */
  atomic { !locked -> locked = true } /*> pthread_mutex_lock(&applying); */
  do
  :: ((end - 1 - applied) & PLACES) < PLACES / 2 ->
    /*> const bool is_before_end = ((end - 1 - place) & PLACES) < PLACES / 2; */
    /*> const uint64_t place = atomic_load_explicit(&applied, memory_order_relaxed); */
    ApplyAt(); /*> if (!apply_at(place)) wait_a_moment(); */
    done || IS_FILLED
  :: else -> break
  od;
  is_over = true;
  assert(applied_events == in_time_events);
  locked = false /*> pthread_mutex_unlock(&applying); */
}

init {
  byte id;
  atomic {
    do
    :: id < THREADS -> id++; run Thread()
    :: else -> break
    od;
    run Stop()
  }
}
