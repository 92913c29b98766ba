// SPDX-License-Identifier: GPL-2.0-or-later
#include "stretches.h"

#include "guest/registers.h"
#include "pub_tool_xarray.h"

enum {
  MOST_INSTRUCTIONS = 255,
  MOST_BYTES = 16 * MOST_INSTRUCTIONS,
};

static VgHashTable* stretches;
static UInt stretches_used = REST + 1;
static XArray* objects;  // of CodeObject

void executions_begin(void) {
  contexts_begin();
  stretches = VG_(HT_construct)("tare.stretches");
  objects = VG_(newXA)(VG_(malloc), "tare.code objects", VG_(free), sizeof(CodeObject));
  const CodeObject none = {VG_(strdup)("tare.code object", ""), 0};
  VG_(addToXA)(objects, &none);
}

UInt code_objects_used(void) { return (UInt)VG_(sizeXA)(objects); }

const CodeObject* code_object(UInt number) { return VG_(indexXA)(objects, (Word)number); }

static UInt object_of(Addr address) {
  static Word latest;
  const DebugInfo* const info = VG_(find_DebugInfo)(VG_(current_DiEpoch)(), address);
  const HChar* const file = info == NULL ? NULL : VG_(DebugInfo_get_filename)(info);
  if (file == NULL) return 0;
  const Addr bias = (Addr)VG_(DebugInfo_get_text_bias)(info);
  const Word known = VG_(sizeXA)(objects);
  for (Word i = 0; i < known; ++i) {
    const Word place = (latest + i) % known;
    const CodeObject* const object = VG_(indexXA)(objects, place);
    if (object->bias != bias || VG_(strcmp)(object->file, file) != 0) continue;
    latest = place;
    return (UInt)place;
  }
  const CodeObject object = {VG_(strdup)("tare.code object", file), bias};
  latest = VG_(addToXA)(objects, &object);
  return (UInt)latest;
}

static SizeT size_of(UInt instructions, UInt bytes) {
  return sizeof(Stretch) + instructions + bytes;
}

static Word compare(const void* left, const void* right) {
  const Stretch *const one = left, *const other = right;
  if (one->object != other->object || one->bytes != other->bytes ||
      one->instructions != other->instructions)
    return 1;
  return VG_(memcmp)(one->content, other->content, one->instructions + one->bytes);
}

// The stretch that is being collected, with room for the largest.
static union {
  Stretch stretch;
  UChar room[sizeof(Stretch) + MOST_INSTRUCTIONS + MOST_BYTES];
} draft;
static UChar lengths[MOST_INSTRUCTIONS];

static UInt number_of_draft(void) {
  Stretch* const wanted = &draft.stretch;
  wanted->object = object_of(wanted->address);
  VG_(memcpy)(wanted->content, lengths, wanted->instructions);
  VG_(memcpy)
  (wanted->content + wanted->instructions, (const void*)wanted->address, wanted->bytes);
  const Stretch* const known = VG_(HT_gen_lookup)(stretches, wanted, compare);
  if (known != NULL) return known->number;
  if (stretches_used == MOST_STRETCHES) return REST;
  const SizeT size = size_of(wanted->instructions, wanted->bytes);
  Stretch* const fresh = VG_(malloc)("tare.stretch", size);
  VG_(memcpy)(fresh, wanted, size);
  fresh->number = stretches_used++;
  VG_(HT_add_node)(stretches, fresh);
  return fresh->number;
}

Bool executions_have_room(Addr address, UInt bytes) {
  const Stretch* const stretch = &draft.stretch;
  if (stretch->instructions == 0) return True;
  // Where the core has unrolled a loop, a block goes back.
  const Bool follows = address == stretch->address + stretch->bytes;
  return follows && stretch->instructions < MOST_INSTRUCTIONS &&
         stretch->bytes + bytes <= MOST_BYTES;
}

void executions_add_instruction(Addr address, UInt bytes) {
  Stretch* const stretch = &draft.stretch;
  if (stretch->instructions == 0) {
    stretch->address = address;
    stretch->bytes = 0;
  }
  lengths[stretch->instructions++] = (UChar)bytes;
  stretch->bytes += bytes;
}

void executions_add_stretch(Translation* translation) {
  const UInt instructions = draft.stretch.instructions;
  if (instructions == 0) return;
  const UInt number_ = number_of_draft();
  IRExpr* const place = binary(translation, WORD_ADD,
                               get_address_register(translation, offsetof(Registers, counters)),
                               word(number_ * sizeof(ULong)));
  IRExpr* const count = load(translation, Ity_I64, place);
  store(translation, place,
        binary(translation, Iop_Add64, count, number(number_ == REST ? instructions : 1)));
  draft.stretch.instructions = 0;
}

void executions_start_child(void) { contexts_reset(stretches_used); }

static Int by_number(const void* left, const void* right) {
  const Stretch *const one = *(Stretch* const*)left, *const other = *(Stretch* const*)right;
  return one->number < other->number ? -1 : one->number > other->number;
}

void stretches_visit(void (*visit)(void* to, const Stretch* stretch), void* to) {
  UInt count;
  VgHashNode** const nodes = VG_(HT_to_array)(stretches, &count);
  VG_(ssort)(nodes, count, sizeof *nodes, by_number);
  for (UInt i = 0; i < count; ++i) visit(to, (const Stretch*)nodes[i]);
  if (nodes != NULL) VG_(free)(nodes);
}
