// SPDX-License-Identifier: GPL-2.0-or-later
// What libtare-instrument-regions.so and kits/benchmark ask of the tool, by Valgrind's client
// requests, and with what.

#ifndef TARE_INSTRUMENT_CLIENT_REQUESTS_H
#define TARE_INSTRUMENT_CLIENT_REQUESTS_H

// As VG_USERREQ_TOOL_BASE('T', 'A') would give it.
enum {
  REQUEST_CREATE = ('T' << 24) + ('A' << 16),  // parent, frame; answers with the region
  REQUEST_ALLOCATE,                            // region, object, bytes, usable, frame
  REQUEST_FREE,                                // 0, object
  REQUEST_CLEAR,                               // region
  REQUEST_DESTROY,                             // region
  REQUEST_BEGIN_OWN,
  REQUEST_END_OWN,
  // Address, room in numbers of 64 bits, whether a new peak begins; answers with how many of the
  // counts it wrote there.
  REQUEST_COUNTS,
  REQUESTS_END
};

#endif
