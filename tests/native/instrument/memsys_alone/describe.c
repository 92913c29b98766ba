// SPDX-License-Identifier: GPL-2.0-or-later
// The reader of descriptions, for programs that do not know its types.

#include "memsys/description.h"

const HChar* describe(HChar* text);

const HChar* describe(HChar* text) {
  static Description description;
  memset(&description, 0, sizeof description);
  return description_read(text, &description);
}
