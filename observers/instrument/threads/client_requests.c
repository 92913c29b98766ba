// SPDX-License-Identifier: GPL-2.0-or-later
#include "client_requests.h"

#include "client/requests.h"
#include "manager/counts.h"
#include "objects/own_memory.h"
#include "objects/regions.h"
#include "sites/shadow.h"
#include "threads.h"

// Who called the function of the program whose frame is at `frame`.
static UInt site_in_frame(ThreadId id, Addr frame) {
  const Registers registers = load_registers(id);
  const Addr returns_to = frame + sizeof(Addr);  // where that address lies
  return sites_are_on() ? site_of_outer(&registers, returns_to) : 0;
}

// How many of the counts were written to `address`, where there is room for `room`.
static UWord answer_counts(Addr address, UWord room, UWord new_peak) {
  const ProcessCount* const count = &process_count;
  const ULong proof = operation_counts[OP_PROOF].instructions;
  ULong of_manager = 0;
  for (Operation operation = 0; operation < OP_COUNT; ++operation)
    if (operation != OP_PROOF) of_manager += operation_counts[operation].instructions;
  const ULong counts[] = {threads_clock() - proof, of_manager,        count->objects,
                          count->allocated_bytes,  count->live_bytes, count->asked_max_live_bytes};
  const UWord filled =
      room < sizeof counts / sizeof *counts ? room : sizeof counts / sizeof *counts;
  if (!VG_(am_is_valid_for_client)(address, filled * sizeof *counts, VKI_PROT_WRITE)) return 0;
  VG_(memcpy)((void*)address, counts, filled * sizeof *counts);
  if (new_peak) process_count.asked_max_live_bytes = count->live_bytes;
  return filled;
}

static Bool answer(ThreadId thread, UWord* request, UWord* result) {
  const UWord* const arguments = request + 1;
  if (request[0] == REQUEST_COUNTS) {
    *result = answer_counts(arguments[0], arguments[1], arguments[2]);
    return True;
  }
  if (!recording_is_on() || request[0] < REQUEST_CREATE || request[0] >= REQUESTS_END) return False;
  *result = 0;
  const ULong clock = threads_clock();
  switch (request[0]) {
    case REQUEST_CREATE:
      *result = regions_create(arguments[0], site_in_frame(thread, arguments[1]));
      break;
    case REQUEST_ALLOCATE: {
      const Birth birth = {.address = arguments[1],
                           .size = arguments[2],
                           .usable_size = arguments[3],
                           .operation = BORN_IN_REGION,
                           .clock = clock,
                           .thread = thread_of(thread)->number,
                           .site = site_in_frame(thread, arguments[4])};
      regions_allocate(arguments[0], &birth);
      break;
    }
    case REQUEST_FREE:
      if (arguments[1] != 0) {
        const Death death = {.freeing = BY_FREE, .clock = clock, .frees_since = NEVER_IN_TIME};
        object_died(arguments[1], &death);
      }
      break;
    case REQUEST_CLEAR:
      regions_clear(arguments[0], clock);
      break;
    case REQUEST_DESTROY:
      regions_destroy(arguments[0], clock);
      break;
    // In between, what the thread gets from the manager is the library's own. They nest.
    case REQUEST_BEGIN_OWN:
      regions_were_seen = True;
      ++thread_of(thread)->own;
      break;
    case REQUEST_END_OWN:
      if (thread_of(thread)->own != 0) --thread_of(thread)->own;
      break;
  }
  return True;
}

void client_requests_initialise(void) {
  regions_initialise();
  VG_(needs_client_requests)(answer);
}
