/* observers/jvm/trace: the walk that finds the first objects is one moment of all threads. What a
 * thread made before it is a first object; what it makes later, or introduces, has its own birth.
 * No object has two, and none is without.
 *
 * The walk stops threads in Java and in calls of the JVM, not those in the agent's own code.
 */

#ifndef THREADS
#define THREADS 2
#endif
#ifndef OBJECTS
#define OBJECTS 2
#endif
#define ALL (THREADS * OBJECTS)

bool stopped, have_begun, is_named;
byte born[ALL];
bool made[ALL], is_shared[ALL], has_tag[ALL];

inline Birth(object) {
  born[object]++
}

inline SetTag(object) {
  atomic { !stopped -> has_tag[object] = true }
}

inline is_a_first_object() {
  if
  :: is_past_the_walk -> is_first = false /*> if (is_past_the_walk) return false; */
  :: else ->
    is_past_the_walk = true;
    atomic { !stopped -> is_first = has_tag[own] } /*> (*tools)->GetTag(tools, object, &tag); */
  fi
}

inline on_allocation() {
  if
  :: have_begun -> /*> if (!objects_have_begun()) return; */
    /*> return atomic_load_explicit(&have_begun, memory_order_acquire); */
    is_a_first_object();
    if
    :: !is_first -> /*> if (is_a_first_object(tools, object)) return; */
      Birth(own); /*> const jlong tag = recording_birth(birth); */
      SetTag(own) /*> (*tools)->SetTag(tools, object, tag); */
    :: else
    fi
  :: else
  fi
}

/* With the lock: one thread at a time. */
inline stored_exactly() {
  if
  :: have_begun -> /*> if (!objects_have_begun()) return; is_observing = true; */
    atomic { !is_named -> is_named = true };
    atomic { !stopped -> is_first = has_tag[other] } /*> (*tools)->GetTag(tools, object, &tag); */
    if
    :: !is_first -> Birth(other); SetTag(other)
    :: else
    fi;
    is_named = false
  :: else
  fi
}

proctype Allocates(byte me) {
  byte own = me * OBJECTS, other;
  bool is_first, is_past_the_walk;
  do
  :: own < (me + 1) * OBJECTS ->
    atomic { !stopped -> made[own] = true };
    on_allocation();
    atomic { !stopped -> is_shared[own] = true };
    own++
  :: select (other : 0 .. ALL - 1);
    if
    :: is_shared[other] -> stored_exactly()
    :: else
    fi
  :: own == (me + 1) * OBJECTS -> break
  od
}

proctype Walks() {
  byte object;
  stopped = true;
  have_begun = true;
  /*> atomic_store_explicit(&have_begun, true, memory_order_release); */
  do
  :: object < ALL ->
    if
    :: made[object] && !has_tag[object] ->
      /*> if (*tag == 0) *tag = recording_first_birth((uint64_t)size); */
      Birth(object);
      has_tag[object] = true
    :: else
    fi;
    object++
  :: else -> break
  od;
  stopped = false
}

init {
  byte each = 0;
  atomic {
    do
    :: each < THREADS -> run Allocates(each); each++
    :: else -> break
    od;
    run Walks()
  }
  _nr_pr == 1;
  each = 0;
  do
  :: each < ALL -> assert(born[each] == 1); each++
  :: else -> break
  od
}
