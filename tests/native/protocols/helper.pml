/* observers/instrument/memsys: the program gives steps to a helper, which takes them; each sleeps
 * where it has to wait for the other. Nobody sleeps for ever, though no sleep ends by itself here.
 *
 * The helper needs memory at times, which only the program can get it. It is woken late at times:
 * one that sleeps is let sleep until enough is to be done.
 */

#ifndef ALL
#define ALL 4 /* steps */
#endif
#define STEPS 2
#ifndef MEMORY
#define MEMORY 2 /* times that the helper needs some */
#endif

byte made, given, taken, awaited;
bool helper_sleeps, program_sleeps, wants_memory, is_over, has_ended;

/* The kernel: who sleeps at a futex. */
bool helper_waits, program_waits, memory_waits;

inline FutexWait(word, waits) {
  atomic {
    if
    :: word -> waits = true
    :: else
    fi
  };
  !waits
}

inline wake_program() {
  atomic { was = program_sleeps; program_sleeps = false };
  /*> if (atomic_exchange(&program_sleeps, 0) != 0) futex_wake(&program_sleeps); */
  if
  :: was -> program_waits = false
  :: else
  fi
}

inline from_program() {
  wants_memory = true; /*> atomic_store(&wants_memory, 1); */
  wake_program();      /*> wake_program(); */
  do
  :: wants_memory -> FutexWait(wants_memory, memory_waits)
  :: else -> break /*> while (atomic_load(&wants_memory) != 0) { */
  od
}

inline await_step() {
  helper_sleeps = true; /*> atomic_store(&helper_sleeps, 1); */
  if
  :: given == next -> /*> if (atomic_load(&given) == after) { */
    if
    :: is_over -> goto over /*> if (atomic_load(&is_over) != 0) return False; */
    :: else
    fi;
    FutexWait(helper_sleeps, helper_waits)
  :: else
  fi;
  helper_sleeps = false /*> atomic_store(&helper_sleeps, 0); */
}

proctype Helps() {
  byte next, end, memory;
  bool was;
  do
  :: end = given;
     /*> const ULong available = atomic_load_explicit(&given, memory_order_acquire); */
    if
    :: end == next -> await_step()
    :: else ->
      if
      :: end - next > 1 -> end = next + 1 /* so many at once */
      :: true
      fi;
      do
      :: next != end ->
        if
        :: memory < MEMORY -> memory++; from_program()
        :: true
        fi;
        next++
      :: else -> break
      od;
      taken = next; /*> atomic_store(&taken, next); */
      if
      :: program_sleeps && next >= awaited -> wake_program()
      /*> if (atomic_load(&program_sleeps) != 0 && next >= atomic_load(&awaited)) wake_program(); */
      :: else
      fi
    fi
  od;
over:
  has_ended = true
}

inline grant_memory() {
  if
  :: wants_memory ->
    /*> if (atomic_load_explicit(&wants_memory, memory_order_acquire) == 0) return; */
    wants_memory = false; /*> atomic_store(&wants_memory, 0); */
    memory_waits = false  /*> futex_wake(&wants_memory); */
  :: else
  fi
}

inline wake_helper() {
  atomic { was = helper_sleeps; helper_sleeps = false };
  /*> if (atomic_exchange(&helper_sleeps, 0) != 0) futex_wake(&helper_sleeps); */
  if
  :: was -> helper_waits = false
  :: else
  fi
}

inline give_all() {
  given = made; /*> atomic_store(&given, made); */
  grant_memory();
  if
  :: wake_helper()
  :: true
  fi
}

inline helper_await(step) {
  if
  :: taken < step ->
    /*> return atomic_load_explicit(&taken, memory_order_acquire) >= step; */
    give_all();
    wake_helper();  /*> give_all(); wake_helper(); */
    awaited = step; /*> atomic_store(&awaited, step); */
    do
    :: taken < step ->
      program_sleeps = true; /*> atomic_store(&program_sleeps, 1); */
      if
      :: taken < step && !wants_memory -> FutexWait(program_sleeps, program_waits)
      :: else
      fi;
      program_sleeps = false; /*> atomic_store(&program_sleeps, 0); */
      grant_memory()
    :: else -> break
    od;
    assert(taken >= step)
  :: else
  fi
}

proctype Gives() {
  bool was;
  do
  :: made < ALL ->
    if
    :: made >= STEPS -> helper_await(made - STEPS + 1)
    :: else
    fi;
    assert(made - taken < STEPS);
    made++;
    if
    :: give_all()
    :: true
    fi
  :: helper_await(made)
  :: made == ALL -> break
  od;
  helper_await(made); /*> helper_await(made); */
  is_over = true;     /*> atomic_store(&is_over, 1); */
  wake_helper();      /*> atomic_store(&is_over, 1); wake_helper(); */
  has_ended
}

init {
  atomic {
    run Helps();
    run Gives()
  }
}
