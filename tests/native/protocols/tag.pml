/* observers/jvm/trace: at the end every object that is recorded gets its tag, before the heap is
 * walked. Threads allocate, and go on doing so.
 */

#ifndef THREADS
#define THREADS 2
#endif
#ifndef OBJECTS
#define OBJECTS 2
#endif

bool stopped, locked;
byte tagging[THREADS], born, tagged;

inline Record() {
  atomic {
    is_recorded = !stopped; /*> const jlong tag = recording_birth(birth); */
    born = born + is_recorded
  }
}

/*> (*tools)->SetTag(tools, object, tag); */
inline Tag() {
  tagged = tagged + is_recorded
}

inline record_allocation() {
  tagging[me]++; /*> atomic_fetch_add_explicit(here, 1, memory_order_acq_rel); */
  Record();
  Tag();
  tagging[me]-- /*> atomic_fetch_sub_explicit(here, 1, memory_order_release); */
}

inline introduce() {
  atomic { !locked -> locked = true } /*> pthread_mutex_lock(&naming); */
  Record(); /*> tag = recording_late_birth((uint64_t)size); */
  Tag();
  locked = false /*> pthread_mutex_unlock(&naming); */
}

proctype Allocates(byte me) {
  byte objects;
  bool is_recorded;
  do
  :: objects < OBJECTS ->
    objects++;
    if
    :: record_allocation()
    :: introduce()
    fi
  :: else -> break
  od
}

inline objects_await_tags() {
  part = 0;
  do
  :: part < THREADS ->
    tagging[part] == 0;
    /*> while (atomic_load_explicit(&tagging[part].threads, memory_order_acquire) != 0) wait_a_moment();
    */
    part++
  :: else -> break
  od;
  atomic { !locked -> locked = true };
  /*> pthread_mutex_lock(&naming); // of those who introduce one */
  locked = false
}

proctype Ends() {
  byte part;
  stopped = true; /*> recording_stop(); */
  objects_await_tags();
  assert(tagged == born)
}

init {
  atomic {
    byte each = 0;
    do
    :: each < THREADS -> run Allocates(each); each++
    :: else -> break
    od;
    run Ends()
  }
}
