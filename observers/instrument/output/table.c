// SPDX-License-Identifier: GPL-2.0-or-later
#include "table.h"

#include "../../tables/block.h"

enum {
  BLOCK_ROWS = 4096,
  APART = BLOCK_ROWS + 8,  // so that a row's values do not fall into one set of the cache
  MOST_COLUMNS = 16,
};

struct _Table {
  Int file;
  UInt columns;
  UInt rows;
  ULong values[MOST_COLUMNS][APART];
};

static HChar block[TARE_TABLE_BLOCK_BYTES(MOST_COLUMNS, BLOCK_ROWS)];

static Bool write_all(Int file, const HChar* bytes, SizeT count) {
  while (count > 0) {
    const Int written = VG_(write)(file, bytes, (Int)count);
    if (written <= 0) return False;
    bytes += written;
    count -= (SizeT)written;
  }
  return True;
}

Table* table_create_for_now(const HChar* path, const HChar* name, const HChar* names) {
  const SysRes opened =
      VG_(open)(path, VKI_O_CREAT | VKI_O_WRONLY | VKI_O_TRUNC, VKI_S_IRUSR | VKI_S_IWUSR);
  if (sr_isError(opened)) {
    VG_(umsg)("cannot write %s\n", path);
    return NULL;
  }
  Table* const table = VG_(malloc)("tare.table", sizeof *table);
  table->file = (Int)sr_Res(opened);
  table->columns = 1;
  table->rows = 0;
  for (const HChar* each = names; *each != '\0'; ++each) table->columns += *each == ' ';
  tl_assert(table->columns <= MOST_COLUMNS);
  HChar line[512];
  const UInt length = VG_(snprintf)(line, sizeof line, "tare-table 1 %s %s\n", name, names);
  write_all(table->file, line, length);
  return table;
}

Table* table_create(const HChar* path, const HChar* name, const HChar* names) {
  Table* const table = table_create_for_now(path, name, names);
  if (table != NULL) table->file = VG_(safe_fd)(table->file);  // out of the program's way
  return table;
}

Bool table_add(Table* table, const ULong* row) {
  if (table == NULL) return False;
  for (UInt column = 0; column < table->columns; ++column)
    table->values[column][table->rows] = row[column];
  if (++table->rows < BLOCK_ROWS) return False;
  table_flush(table);
  return True;
}

void table_flush(Table* table) {
  if (table == NULL || table->rows == 0) return;
  const SizeT bytes = tare_table_block(table->values, APART, table->columns, table->rows, block);
  if (!write_all(table->file, block, bytes)) {
    static Bool said;
    if (!said) VG_(umsg)("a table could not be written: is the disk full?\n");
    said = True;
  }
  table->rows = 0;
}

void table_abandon(Table* table) {
  if (table == NULL) return;
  VG_(close)(table->file);
  VG_(free)(table);
}

void table_close(Table* table) {
  table_flush(table);
  table_abandon(table);
}
