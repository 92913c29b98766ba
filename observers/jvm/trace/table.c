#define _GNU_SOURCE
#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
  MAGIC = 0x324b4c42,  // "BLK2"
  HEADER_BYTES = 4 * sizeof(uint32_t),
};

static bool write_all(int file, const char* bytes, size_t count) {
  while (count > 0) {
    const ssize_t written = write(file, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    count -= (size_t)written;
  }
  return true;
}

bool table_open(struct table* table, const char* stem, const char* name, const char* columns) {
  char path[4096];
  char line[512];
  const int length = snprintf(path, sizeof path, "%s.%s", stem, name);
  if (length < 0 || (size_t)length >= sizeof path) return false;
  table->file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (table->file < 0) return false;
  table->columns = 1;
  for (const char* each = columns; *each != '\0'; ++each) table->columns += *each == ' ';
  const int line_length = snprintf(line, sizeof line, "tare-table 1 %s %s\n", name, columns);
  return write_all(table->file, line, (size_t)line_length);
}

void table_add(struct table* table, const uint64_t* row) {
  for (unsigned column = 0; column < table->columns; ++column)
    table->values[column][table->rows] = row[column];
  if (++table->rows == BLOCK_ROWS) table_flush(table);
}

static char* put(char* at, uint64_t value, size_t bytes) {
  memcpy(at, &value, sizeof value);
  return at + bytes;
}

static size_t width_of(uint64_t value) {
  return value == 0 ? 0 : sizeof value - (size_t)__builtin_clzll(value) / 8;
}

static uint32_t checksum_of(const char* payload, size_t size) {
  uint64_t sum = 0;
  for (size_t at = 0; at < size; at += sizeof sum) {
    uint64_t word = 0;
    memcpy(&word, payload + at, size - at < sizeof word ? size - at : sizeof word);
    sum += word;
  }
  return (uint32_t)(sum ^ (sum >> 32));
}

void table_flush(struct table* table) {
  if (table->rows == 0) return;
  char* const block = table->block;
  uint64_t bases[MOST_COLUMNS];
  size_t widths[MOST_COLUMNS];
  char* at = block + HEADER_BYTES;
  for (unsigned column = 0; column < table->columns; ++column) {
    const uint64_t* values = table->values[column];
    uint64_t least = values[0];
    uint64_t most = values[0];
    for (unsigned row = 1; row < table->rows; ++row) {
      if (values[row] < least) least = values[row];
      if (values[row] > most) most = values[row];
    }
    bases[column] = least;
    widths[column] = width_of(most - least);
    at = put(at, least, sizeof least);
    at = put(at, widths[column], sizeof least);
  }
  for (unsigned column = 0; column < table->columns; ++column)
    for (unsigned row = 0; widths[column] != 0 && row < table->rows; ++row)
      at = put(at, table->values[column][row] - bases[column], widths[column]);
  const size_t payload = (size_t)(at - block) - HEADER_BYTES;
  const uint32_t header[] = {
      MAGIC,
      table->rows,
      (uint32_t)payload,
      checksum_of(block + HEADER_BYTES, payload),
  };
  memcpy(block, header, sizeof header);
  if (!table->failed) table->failed = !write_all(table->file, block, HEADER_BYTES + payload);
  table->rows = 0;
}
