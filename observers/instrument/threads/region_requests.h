// SPDX-License-Identifier: GPL-2.0-or-later
// What region libraries say by way of client/regions.cpp: a recording sees regions.

#ifndef TARE_INSTRUMENT_THREADS_REGION_REQUESTS_H
#define TARE_INSTRUMENT_THREADS_REGION_REQUESTS_H

void region_requests_initialise(void);

#endif
