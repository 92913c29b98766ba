// Processor time of the threads of this JVM, told apart by their names: collector, compiler,
// others.
#ifndef TARE_JVM_PROCESSOR_TIME_H
#define TARE_JVM_PROCESSOR_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "format.h"

uint64_t nanoseconds_of(int clock);

// Starts the thread that looks at the others from time to time and writes their sums to `header`.
bool start_watching_threads(struct tare_jvm_header* header);

// Looks once more, from whatever thread.
void look_at_threads(void);

// Makes known what compiler threads there are, for the thread that stops the program to call before
// compilers_begin: a JVM starts them in its first moments, and its first collections are soon
// after. Takes one stat unless the number of threads has changed.
void find_new_compilers(void);

// Processor time that compiler threads used between the two calls. Both are for the one thread that
// stops the program.
void compilers_begin(void);
uint64_t compilers_end(void);

#endif
