// The file that the agent leaves for each JVM: a header, then one record for each time that the
// collector had stopped the program. It is mapped, so a kill loses nothing.
// tare/memory_managers/runtimes/jvm/__init__.py reads it; all numbers are 64 bits in the machine's
// order, times are nanoseconds of CLOCK_MONOTONIC, which System.nanoTime shows too.
#ifndef TARE_JVM_FORMAT_H
#define TARE_JVM_FORMAT_H

#include <stdatomic.h>
#include <stdint.h>

#define TARE_JVM_MAGIC UINT64_C(0x314D564A45524154)  // "TAREJVM1"

enum { TARE_JVM_HEADER_BYTES = 4096, TARE_JVM_MOST_STOPS = 1 << 20 };

struct tare_jvm_header {
  uint64_t magic;
  uint64_t pid;
  uint64_t loaded_ns;
  uint64_t ended_ns;  // 0 until the JVM ends in an orderly way
  _Atomic uint64_t stops;
  _Atomic uint64_t dropped;   // stops beyond the most that are kept, or that found no room
  uint64_t collector_cpu_ns;  // of the collector's threads, those beside the program included
  uint64_t compiler_cpu_ns;
  uint64_t observer_cpu_ns;  // of the agent's own thread
  uint64_t process_cpu_ns;   // when the threads were last looked at
  uint64_t forced_collections;
};

// `cpu_ns` is processor time of the process between the two, without that of its compiler.
struct tare_jvm_stop {
  uint64_t start_ns;
  uint64_t finish_ns;
  uint64_t cpu_ns;
};

#endif
