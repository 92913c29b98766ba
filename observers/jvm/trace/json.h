#ifndef TARE_JVM_JSON_H
#define TARE_JVM_JSON_H

#include <stdio.h>
#include <string.h>

#include "../../json_text.h"

static inline void put_json_piece(void* file, const char* piece) { fputs(piece, file); }

static inline void write_json_text(FILE* file, const char* text) {
  tare_json_string(text, strlen(text), put_json_piece, file);
}

#endif
