/* observers/jvm/trace: a thread of the JVM tells of what a collection found dead, in one loop; the
 * thread that asked for the collection waits for the end of the loop.
 *
 * A probe is among the dead, at any place. Who tells may sleep in the agent, and at the end.
 */

#ifndef DEATHS
#define DEATHS 3
#endif

byte entries, told;
bool heard, asleep = true;

inline on_free(is_probe) {
  entries++; /*> atomic_fetch_add_explicit(&entries, 1, memory_order_acq_rel); */
  /*> atomic_store_explicit(&teller, self, memory_order_relaxed); */
  if
  :: asleep = true; asleep = false /* the log is full */
  :: true
  fi;
  told++; /*> if (tag > 0) recording_death(tag); */
  if
  :: is_probe -> heard = true
     /*> if (tag < LAST_PROBE) atomic_store_explicit(&heard, tag, memory_order_release); */
  :: else
  fi;
  entries++ /*> atomic_fetch_add_explicit(&entries, 1, memory_order_acq_rel); */
}

proctype Teller() {
  byte left = DEATHS;
  bool is_probe;
  asleep = false;
  do
  :: left > 0 ->
    if
    :: !heard -> is_probe = true
    :: left > 1 || heard -> is_probe = false
    fi;
    on_free(is_probe);
    left--
  :: else -> break
  od;
  asleep = true
}

proctype Waits() {
  byte before;
  do
  :: heard ->
    /*> if (atomic_load_explicit(&heard, memory_order_acquire) != probe) return false; */
    before = entries;
    /*> const uint64_t before = atomic_load_explicit(&entries, memory_order_acquire); */
    if
    :: before % 2 == 0 -> /*> if (before % 2 != 0) return false; */
      if
      :: asleep ->
        /*> if (!is_asleep(atomic_load_explicit(&teller, memory_order_relaxed))) return false; */
        if
        :: entries == before -> break
           /*> return atomic_load_explicit(&entries, memory_order_acquire) == before; */
        :: else
        fi
      :: else
      fi
    :: else
    fi
  od;
  assert(told == DEATHS)
}

init { atomic { run Teller(); run Waits() } }
