// A table of a raw recording, as docs/trace.md describes: rows are gathered into blocks, and a
// block that was written survives whatever happens to the process.
#ifndef TARE_JVM_TABLE_H
#define TARE_JVM_TABLE_H

#include <stdbool.h>
#include <stdint.h>

enum {
  MOST_COLUMNS = 9,
  BLOCK_ROWS = 4096,
  // A number is put down as a whole, and the next one over its upper part: hence the room behind.
  MOST_BLOCK_BYTES = 16 + MOST_COLUMNS * (16 + BLOCK_ROWS * 8) + 8,
};

struct table {
  int file;
  unsigned columns;
  unsigned rows;
  bool failed;  // the disk is full, say
  uint64_t values[MOST_COLUMNS][BLOCK_ROWS];
  char block[MOST_BLOCK_BYTES];
};

// Opens STEM.NAME with columns of these names, which spaces part.
bool table_open(struct table* table, const char* stem, const char* name, const char* columns);
void table_add(struct table* table, const uint64_t* row);
void table_flush(struct table* table);

#endif
