// What is written down of one JVM: births, deaths, stores and marks, in the one order that log.h
// gives them. Any thread may call any of these at any moment: none calls the JVM, so a collection
// never waits for what a stopped thread holds. Blocks are written by threads of the program, so it
// slows down rather than that something is lost.
//
// Time is counted in events: births, stores, and moments at which something was found dead.
#ifndef TARE_JVM_RECORDING_H
#define TARE_JVM_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JVM_THREAD = 0 };

struct birth {
  uint64_t size;
  uint32_t site;
  uint32_t thread;
};

// Of the objects that were there at the end; see recording_end.
struct found {
  uint64_t recorded;
  uint64_t missed;
  uint64_t missed_bytes;
};

// FOLDER/PID.0.*. `wants_pointers` is for the stores.
bool recording_open(const char* folder, bool wants_pointers);

// The tag of a new object, by which its death is told.
int64_t recording_birth(struct birth birth);

// An object that no event told of was found; it is born now. Or it was there before everything.
int64_t recording_late_birth(uint64_t size);
int64_t recording_first_birth(uint64_t size);

void recording_death(int64_t tag);

// How many deaths were told after recording_stop.
uint64_t recording_late_deaths(void);

// All deaths until recording_mark_end are of one moment.
void recording_mark_begin(void);
void recording_mark_end(void);

// Whether so many bytes were allocated since this was last true.
bool recording_is_due(uint64_t period);

// A thread of this number, which the JVM gave it, allocates.
void recording_thread(uint32_t number);

// From now on the object of the tag is known by this identity hash, unless another has it, too.
void recording_name(uint32_t hash, int64_t tag);

// A store of a pointer, by identity hashes: a source of 0 is static memory, a target of 0 is null.
// False where a hash is not of one named object alone; then nothing is recorded.
bool recording_store(uint32_t source, uint64_t offset, uint32_t target);

// The same by tags.
void recording_exact_store(int64_t source, uint64_t offset, int64_t target);

// One that cannot be recorded.
void recording_lost_store(void);

// The copy of an object with fields, whose pointers no store told of.
void recording_unseen_copy(void);

// A reference that was there at the end.
void recording_reference(int64_t source, int64_t target);

void recording_class(bool rewritten);

// A stack whose site was known was asked for again.
void recording_checked_stack(bool was_right);

// Nothing is recorded from now on but references, by one thread.
void recording_stop(void);
void recording_end(struct found found);

#endif
