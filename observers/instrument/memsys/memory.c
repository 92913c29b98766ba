// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory.h"

enum { PIECE_BYTES = 1 << 20, ALIGNMENT = 16 };

static void* from_core(SizeT bytes) { return VG_(calloc)("tare.memsys", 1, bytes); }

static MemorySource* source = from_core;
static HChar* piece;
static SizeT left;  // of the piece

void memory_take_from(MemorySource* other) { source = other == NULL ? from_core : other; }

void* memory_new(SizeT bytes) {
  bytes = VG_ROUNDUP(bytes, ALIGNMENT);
  if (bytes > PIECE_BYTES / 4) return source(bytes);
  if (bytes > left) {
    piece = source(PIECE_BYTES);
    left = PIECE_BYTES;
  }
  HChar* const made = piece;
  piece += bytes;
  left -= bytes;
  return made;
}

void* memory_grown(const void* old, SizeT old_bytes, SizeT bytes) {
  void* const made = memory_new(bytes);
  if (old_bytes > 0) VG_(memcpy)(made, old, old_bytes);
  return made;
}
