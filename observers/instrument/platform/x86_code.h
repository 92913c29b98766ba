// SPDX-License-Identifier: GPL-2.0-or-later
// What the bytes of an instruction say, for processors of the x86 family.

#ifndef TARE_INSTRUMENT_PLATFORM_X86_CODE_H
#define TARE_INSTRUMENT_PLATFORM_X86_CODE_H

#include "core.h"

// Whether the instruction moves or sets a string, a byte at a time.
static inline Bool repeats_bytes(Addr instruction) {
  const UChar* byte = (const UChar*)instruction;
  Bool repeats = False;
  for (; *byte == 0x66 || *byte == 0xf2 || *byte == 0xf3 || (*byte & 0xf0) == 0x40; ++byte)
    repeats = repeats || *byte == 0xf2 || *byte == 0xf3;
  return repeats && (*byte == 0xa4 || *byte == 0xaa);
}

static inline Bool is_branch(Addr instruction) {
  const UChar* byte = (const UChar*)instruction;
  while (*byte == 0x2e || *byte == 0x3e || *byte == 0xf2) ++byte;
  const Bool is_short = (*byte & 0xf0) == 0x70 || (*byte & 0xfc) == 0xe0;
  return is_short || (*byte == 0x0f && (byte[1] & 0xf0) == 0x80);
}

#endif
