// SPDX-License-Identifier: GPL-2.0-or-later
// A table in a file: rows of unsigned numbers, written in blocks of columns.
//
// In a block each column has a base, its smallest value, and a width, the bytes that the largest
// difference to it needs. A reader can check each block by itself, so that a file which was cut off
// loses its last block at most. The file begins with a line of text, `tare-table 1 NAME COLUMN …`;
// observers/tables/block.h writes the blocks.

#ifndef TARE_INSTRUMENT_OUTPUT_TABLE_H
#define TARE_INSTRUMENT_OUTPUT_TABLE_H

#include "core.h"

typedef struct _Table Table;

// A file `path` for rows with the columns in `names`, separated by blanks. NULL, after a message,
// when it cannot be written.
Table* table_create(const HChar* path, const HChar* name, const HChar* names);

// One that is closed before the program goes on. It does not need one of the few file descriptors
// that the core keeps from the program, which a recording nearly uses up.
Table* table_create_for_now(const HChar* path, const HChar* name, const HChar* names);

// `row` has a number for each column. A NULL table takes nothing. True when a block has been
// written.
Bool table_add(Table* table, const ULong* row);

// Writes the rows that are still in memory.
void table_flush(Table* table);

// Writes them, and ends the table.
void table_close(Table* table);

// In the child of a fork: the file is the parent's.
void table_abandon(Table* table);

#endif
