// SPDX-License-Identifier: GPL-2.0-or-later
#include "table.h"

enum {
  BLOCK_ROWS = 4096,
  APART = 8,  // so that a row's values do not fall into one set of the processor's cache
  MOST_COLUMNS = 16,
  BLOCK_MAGIC = 0x324b4c42,  // "BLK2"
  HEADER_BYTES = 4 * sizeof(UInt),
  COLUMN_HEADER_BYTES = 2 * sizeof(ULong),
  MOST_BYTES = HEADER_BYTES + MOST_COLUMNS * (COLUMN_HEADER_BYTES + BLOCK_ROWS * sizeof(ULong)),
};

struct _Table {
  Int file;
  UInt columns;
  UInt rows;
  ULong values[MOST_COLUMNS][BLOCK_ROWS + APART];
};

static UChar block[MOST_BYTES + sizeof(ULong)];  // a value is stored whole, then cut by the next

// Of the payload as little-endian words of 64 bits, the last one filled up with zeros.
static UInt sum_of_words(const UChar* bytes, SizeT count) {
  ULong sum = 0;
  for (SizeT at = 0; at < count; at += sizeof(ULong)) {
    ULong word = 0;
    if (count - at >= sizeof word)
      __builtin_memcpy(&word, bytes + at, sizeof word);
    else
      VG_(memcpy)(&word, bytes + at, count - at);
    sum += word;
  }
  return (UInt)(sum ^ (sum >> 32));
}

static Bool write_all(Int file, const UChar* bytes, SizeT count) {
  while (count > 0) {
    const Int written = VG_(write)(file, bytes, (Int)count);
    if (written <= 0) return False;
    bytes += written;
    count -= (SizeT)written;
  }
  return True;
}

Table* table_create(const HChar* path, const HChar* name, const HChar* names) {
  const SysRes opened =
      VG_(open)(path, VKI_O_CREAT | VKI_O_WRONLY | VKI_O_TRUNC, VKI_S_IRUSR | VKI_S_IWUSR);
  if (sr_isError(opened)) {
    VG_(umsg)("cannot write %s\n", path);
    return NULL;
  }
  Table* const table = VG_(malloc)("tare.table", sizeof *table);
  table->file = VG_(safe_fd)((Int)sr_Res(opened));  // out of the program's way
  table->columns = 1;
  table->rows = 0;
  for (const HChar* each = names; *each != '\0'; ++each) table->columns += *each == ' ';
  tl_assert(table->columns <= MOST_COLUMNS);
  HChar line[512];
  const UInt length = VG_(snprintf)(line, sizeof line, "tare-table 1 %s %s\n", name, names);
  write_all(table->file, (const UChar*)line, length);
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

static UInt width_of(ULong value) { return value == 0 ? 0 : 8 - (UInt)__builtin_clzll(value) / 8; }

static UChar* put_bytes(UChar* at, const void* value, UInt bytes) {
  __builtin_memcpy(at, value, sizeof(ULong));
  return at + bytes;
}

void table_flush(Table* table) {
  if (table == NULL || table->rows == 0) return;
  ULong bases[MOST_COLUMNS], widths[MOST_COLUMNS];
  UChar* at = block + HEADER_BYTES;
  for (UInt column = 0; column < table->columns; ++column) {
    const ULong* const values = table->values[column];
    ULong least = values[0], most = values[0];
    for (UInt row = 1; row < table->rows; ++row) {
      if (values[row] < least) least = values[row];
      if (values[row] > most) most = values[row];
    }
    bases[column] = least;
    widths[column] = width_of(most - least);
    at = put_bytes(at, &bases[column], sizeof(ULong));
    at = put_bytes(at, &widths[column], sizeof(ULong));
  }
  for (UInt column = 0; column < table->columns; ++column) {
    const ULong* const values = table->values[column];
    if (widths[column] == 0) continue;
    for (UInt row = 0; row < table->rows; ++row) {
      const ULong difference = values[row] - bases[column];
      at = put_bytes(at, &difference, (UInt)widths[column]);
    }
  }
  const UInt payload = (UInt)(at - block) - HEADER_BYTES;
  const UInt header[] = {BLOCK_MAGIC, table->rows, payload,
                         sum_of_words(block + HEADER_BYTES, payload)};
  __builtin_memcpy(block, header, sizeof header);
  if (!write_all(table->file, block, HEADER_BYTES + payload)) {
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
