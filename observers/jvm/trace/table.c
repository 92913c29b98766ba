#define _GNU_SOURCE
#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

void table_flush(struct table* table) {
  if (table->rows == 0) return;
  const size_t bytes =
      tare_table_block(table->values, BLOCK_ROWS, table->columns, table->rows, table->block);
  if (!table->failed) table->failed = !write_all(table->file, table->block, bytes);
  table->rows = 0;
}
