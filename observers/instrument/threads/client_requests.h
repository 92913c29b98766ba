// SPDX-License-Identifier: GPL-2.0-or-later
// What programs ask of the tool: region libraries by way of client/regions.cpp, so that a recording
// sees regions; and benchmarks, which ask for the counts so far.

#ifndef TARE_INSTRUMENT_THREADS_CLIENT_REQUESTS_H
#define TARE_INSTRUMENT_THREADS_CLIENT_REQUESTS_H

void client_requests_initialise(void);

#endif
