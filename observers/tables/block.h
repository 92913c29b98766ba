// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// A block of a table of a raw recording: rows as columns, each of which has its least value and so
// many bytes of what each row has more. Needs no C library.
//
// A table is a line of text, `tare-table 1 NAME COLUMN ...`, and then blocks. All numbers are
// unsigned and little-endian. A block is, in bytes:
//
//   4                   TARE_TABLE_MAGIC
//   4                   the number of rows, 1 to 65,536
//   4                   the length of all that follows this header
//   4                   the checksum of that, see tare_table_checksum
//   16 for each column  its base, and its width in bytes, 0 to 8
//   the rest            column by column, each number less the base in so many bytes
//
// A block that is cut off, or whose checksum is wrong, ends its table.

#ifndef TARE_TABLES_BLOCK_H
#define TARE_TABLES_BLOCK_H

#include <stddef.h>

enum {
  TARE_TABLE_MAGIC = 0x324b4c42,  // "BLK2"
  TARE_TABLE_HEADER_BYTES = 4 * sizeof(unsigned),
  TARE_TABLE_COLUMN_BYTES = 2 * sizeof(unsigned long long),
};

// What a block takes at most. A number is put down as a whole, and the next one over its upper
// part: hence the room behind.
#define TARE_TABLE_BLOCK_BYTES(columns, rows)                                    \
  (TARE_TABLE_HEADER_BYTES +                                                     \
   (columns) * (TARE_TABLE_COLUMN_BYTES + (rows) * sizeof(unsigned long long)) + \
   sizeof(unsigned long long))

static inline char* tare_table_put(char* at, unsigned long long value, size_t bytes) {
  __builtin_memcpy(at, &value, sizeof value);
  return at + bytes;
}

// Of the payload as words of the machine, the last one filled up with zeros.
static inline unsigned tare_table_checksum(const char* payload, size_t bytes) {
  unsigned long long sum = 0;
  size_t at = 0;
  for (; at + sizeof sum <= bytes; at += sizeof sum) {
    unsigned long long word;
    __builtin_memcpy(&word, payload + at, sizeof word);
    sum += word;
  }
  unsigned long long last = 0;
  for (size_t i = at; i < bytes; ++i)
    last |= (unsigned long long)(unsigned char)payload[i] << 8 * (i - at);
  sum += last;
  return (unsigned)(sum ^ (sum >> 32));
}

// Puts `rows` rows, at least one, into `block`; returns how many bytes of it that takes. Values of
// 64 bits are in `columns`, so many of them from the first of a column to that of the next.
static inline size_t tare_table_block(const void* columns, size_t apart, size_t count, size_t rows,
                                      char* block) {
  const char* const values = (const char*)columns;
  char* head = block + TARE_TABLE_HEADER_BYTES;
  char* at = head + count * TARE_TABLE_COLUMN_BYTES;
  for (size_t column = 0; column < count; ++column) {
    const char* const first = values + column * apart * sizeof(unsigned long long);
    unsigned long long least = ~0ull;
    unsigned long long most = 0;
    for (size_t row = 0; row < rows; ++row) {
      unsigned long long value;
      __builtin_memcpy(&value, first + row * sizeof value, sizeof value);
      if (value < least) least = value;
      if (value > most) most = value;
    }
    const unsigned long long range = most - least;
    const size_t width = range == 0 ? 0 : sizeof range - (size_t)__builtin_clzll(range) / 8;
    head = tare_table_put(head, least, sizeof least);
    head = tare_table_put(head, width, sizeof least);
    for (size_t row = 0; width != 0 && row < rows; ++row) {
      unsigned long long value;
      __builtin_memcpy(&value, first + row * sizeof value, sizeof value);
      at = tare_table_put(at, value - least, width);
    }
  }
  const char* const payload = block + TARE_TABLE_HEADER_BYTES;
  const size_t bytes = (size_t)(at - payload);
  const unsigned header[] = {TARE_TABLE_MAGIC, (unsigned)rows, (unsigned)bytes,
                             tare_table_checksum(payload, bytes)};
  __builtin_memcpy(block, header, sizeof header);
  return (size_t)(at - block);
}

#endif
