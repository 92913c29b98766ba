/* managers/marksweep: a marker beside the program, which moves the only pointers to objects.
 *
 * Objects A and B are roots; what they and D hold is in their one word, each on a page of its own.
 * The program moves words, through a register, and D is new at some time. All marks are left from
 * an earlier collection, of which the sweep ends at some time, too. Threads stop outside of
 * critical sections.
 */

#ifndef MOVES
#define MOVES 2
#endif
#define A 0
#define B 1
#define C 2
#define D 3
#define OBJECTS 4
#define NONE 4
#define BIT(id) (1 << (id))

mtype = { idle, preparing, prepared, marking, marked, ending };
mtype phase = idle;

byte word[OBJECTS] = NONE, reg = NONE; /* what the program has */
byte entered = 7, marks = 15, grey;    /* sets of objects; those that are grey are to be searched */
byte written = 15;                     /* pages, by their object */
byte again;
bool in_section, sweeps = true;

/* For what is asserted: what is given to the allocator. */
byte freed;

#define HOLDS(id, other) (word[id] == other && !(freed & BIT(id)))
#define REACHED_D (reg == D || HOLDS(A, D) || HOLDS(B, D))
#define REACHED_C (reg == C || HOLDS(A, C) || HOLDS(B, C) || (REACHED_D && word[D] == C))
#define LOST ((freed & (BIT(A) | BIT(B))) || (REACHED_C && (freed & BIT(C))) || \
              (REACHED_D && (freed & BIT(D))))

inline Mark(id) {
  if
  :: id != NONE && (entered & BIT(id)) && !(marks & BIT(id)) ->
    marks = marks | BIT(id); grey = grey | BIT(id)
  :: else
  fi
}

/* A step for each object: the word is read, and then marked what it leads to. */
inline Drain() {
  do
  :: grey != 0 ->
    atomic {
      if
      :: grey & BIT(A) -> at = A
      :: grey & BIT(B) -> at = B
      :: grey & BIT(C) -> at = C
      :: grey & BIT(D) -> at = D
      fi;
      grey = grey & ~BIT(at);
      found = word[at]
    }
    atomic { Mark(found) }
  :: else -> break
  od
}

/* All threads are stopped: what the roots hold, and the stacks. */
inline FromRoots() {
  Mark(A); Mark(B);
  Mark(reg)
}

inline SetPhase(next) {
  /*> phase_.store(static_cast<std::uint32_t>(phase), std::memory_order_release); */
  phase = next /*> FutexWake(phase_); */
}

inline AwaitOtherThan(now) {
  phase != now
  /*> while (Now() == phase) FutexWait(phase_, static_cast<std::uint32_t>(phase), nullptr); */
}

inline TakeAll() {
  at = 0;
  do /*> if (!watch.IsOpen() || !VisitWritten<true>(pagemap, [](Address, Address) {})) */
  :: at < OBJECTS -> written = written & ~BIT(at); at++
  :: else -> break
  od
}

inline ClearMarks() {
  at = 0;
  do /*> metadata.ClearMarks(); */
  :: at < OBJECTS -> marks = marks & ~BIT(at); at++
  :: else -> break
  od
}

proctype Marker() {
  byte at, found;
  phase == preparing;
  TakeAll();
  ClearMarks();
  SetPhase(prepared); /*> SetPhase(Phase::kPrepared); */
  AwaitOtherThan(prepared); /*> AwaitOtherThan(Phase::kPrepared); */
  do
  :: phase == marking -> /*> while (Now() == Phase::kMarking) { */
    Drain(); /*> markers.DrainBeside(); */
    byte page = 0;
    do /*> SearchWritten(watch, pagemap); */
    :: page < OBJECTS ->
      if
      :: written & BIT(page) ->
        written = written & ~BIT(page);
        if /*> const Half marked = Marked(Load(block->state)) & Starts(bounds); */
        :: marks & BIT(page) -> grey = grey | BIT(page); Drain()
        :: else
        fi
      :: else
      fi;
      page++
    :: else -> break
    od;
    SetPhase(marked); /*> SetPhase(Phase::kMarked); */
    AwaitOtherThan(marked) /*> AwaitOtherThan(Phase::kMarked); */
  :: phase != marking -> break
  od
}

/* A thread that collects, between what it does for the program. */
proctype Collector() {
  byte at, found, starts, state;
  sweeps = false;
  SetPhase(preparing); /*> SetPhase(Phase::kPreparing); */
  phase == prepared;
  atomic {
    !in_section;
    FromRoots(); /*> markers.BeginBeside(roots.Found()); */
    phase = marking /*> if (done) next = Phase::kMarking; */
  }
  do
  :: phase == marked && again == 0 ->
    again++;
    phase = marking /*> if (!wait && beside.IsFarBehind()) next = Phase::kMarking; */
  :: phase == marked -> break
  od;
  atomic {
    !in_section;
    FromRoots(); /*> markers.Mark(roots.Found(), process.options.markers, bytes); */
    grey = grey | (written & marks);
    /*> EachMarkedOn(from, to, [&](const Span& span) { good &= roots.Found().Add(span); }); */
    Drain();
    sweeps = true
    /*> process.sweeps_by_marks.store(last && sweep.leaf != nullptr, std::memory_order_relaxed); */
  }
  phase = ending;
  byte each = 0;
  do
  :: each < OBJECTS ->
    starts = entered; state = marks;
    /*> const Half starts = Starts(Load(block.bounds)); */
    /*> const Word state = Load(block.state); */
    freed = freed | (starts & ~state & BIT(each));
    /*> const Half dead = starts & ~Marked(state); */
    assert(!LOST);
    each++
  :: else -> break
  od;
  sweeps = false
  /*> if (sweep.leaf == nullptr)
      process.sweeps_by_marks.store(false, std::memory_order_relaxed); */
}

/* A write that goes on at once: the page counts as written to. */
inline Write(id, value) {
  atomic { written = written | BIT(id); word[id] = value }
}

inline MarkUnborn() {
  if
  :: sweeps -> marks = marks | BIT(D)
     /*> if (process.sweeps_by_marks.load(std::memory_order_relaxed)) [[unlikely]]
        metadata.MarkUnborn(reinterpret_cast<Address>(object)); */
  :: else
  fi
}

inline EnterNew() {
  atomic { entered = entered | BIT(D); reg = D }
  /*> if (!metadata.Enter(reinterpret_cast<Address>(object), bytes)) [[unlikely]] { */
}

proctype Program() {
  byte moves, from, to;
  do
  :: moves < MOVES ->
    moves++;
    if
    :: !(entered & BIT(D)) && reg == NONE ->
      in_section = true;
      MarkUnborn(); EnterNew();
      in_section = false;
      if
      :: to = A
      :: to = B
      fi;
      if /* the new object takes over what that holds */
      :: from = word[to]; Write(D, from)
      :: true
      fi;
      Write(to, D);
      reg = NONE
    :: true ->
      if
      :: from = A; to = B
      :: from = B; to = A
      :: REACHED_D -> from = D; to = A
      :: REACHED_D -> from = A; to = D
      fi;
      if
      :: word[from] != to -> /* no object holds itself */
        reg = word[from];
        Write(from, NONE);
        Write(to, reg);
        reg = NONE
      :: else
      fi
    fi
  :: break
  od
}

init { atomic { word[A] = C; run Marker(); run Collector(); run Program() } }
