// SPDX-License-Identifier: GPL-2.0-or-later
// The files of the call sites of a process: a table of their tree, and a line for each frame.
//
//   sites   a call site; the number of the row, from 1, is its id: caller (a site; 0: none), frame
//           (a line of frames, from 0), address of the call
//   frames  lines of JSON: function, object, file and line as the core finds them, and offset of
//           the call in the object's file

#ifndef TARE_INSTRUMENT_SITES_SITE_FILES_H
#define TARE_INSTRUMENT_SITES_SITE_FILES_H

#include "core.h"

// Begins BASE.sites and BASE.frames; in the child of a fork, too, whose parent keeps its own.
void site_files_begin(const HChar* base);

// A line of the text file of frames.
void site_files_add_frame(Addr call);
// A row of the tree of call sites.
void site_files_add_site(UInt caller, UInt frame, Addr call);

// Brings the table up to date; the lines are on disk already.
void site_files_flush(void);

// Where `call` is, as members of a JSON object.
void put_place(VgFile* file, Addr call);

#endif
