// A table of a raw recording, as observers/tables/block.h describes: rows are gathered into blocks,
// and a block that was written survives whatever happens to the process.
#ifndef TARE_JVM_TABLE_H
#define TARE_JVM_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "../../tables/block.h"

enum {
  MOST_COLUMNS = 9,
  BLOCK_ROWS = 4096,
};

struct table {
  int file;
  unsigned columns;
  unsigned rows;
  bool failed;  // the disk is full, say
  uint64_t values[MOST_COLUMNS][BLOCK_ROWS];
  char block[TARE_TABLE_BLOCK_BYTES(MOST_COLUMNS, BLOCK_ROWS)];
};

// Opens STEM.NAME with columns of these names, which spaces part.
bool table_open(struct table* table, const char* stem, const char* name, const char* columns);
void table_add(struct table* table, const uint64_t* row);
void table_flush(struct table* table);

#endif
