// SPDX-License-Identifier: GPL-2.0-or-later
#include "executions.h"

#include "events.h"
#include "files.h"
#include "pub_tool_xarray.h"
#include "report.h"
#include "table.h"

enum {
  FORMAT_VERSION = 2,
  MOST_STRETCHES = 1 << 21,  // of one process; its further code is counted without being told apart
  MOST_CONTEXTS = 64,
  MOST_INSTRUCTIONS = 255,
  MOST_BYTES = 16 * MOST_INSTRUCTIONS,
  REST = 0,     // the stretch that stands for those beyond the most: its count is of instructions
  CROWDED = 0,  // the context that stands for those beyond the most
};

typedef struct _Stretch {
  struct _Stretch* next;
  UWord address;
  UInt number;
  UInt object;
  UInt bytes;
  UInt instructions;
  UChar content[];  // the length of each instruction, then all bytes
} Stretch;

typedef struct {
  HChar* file;
  Addr bias;  // from addresses in the file to those in the process
} Object;

typedef struct {
  ULong phases;
  UInt operation;
  ULong* counters;  // by the number of the stretch
} Context;

Bool executions_were_asked;
static VgHashTable* stretches;
static UInt stretches_used = REST + 1;
static XArray* objects;  // of Object; the first is no object
static Context contexts[MOST_CONTEXTS];
static UInt contexts_used;

static HChar base[PATH_BYTES];
static Bool has_files;

// ---- contexts ----

// VG_(am_shadow_alloc) gives an address or NULL, in newer versions a SysRes.
static inline void* shadow_address(void* address) { return address; }
static inline void* shadow_result(SysRes result) {
  return sr_isError(result) ? NULL : (void*)sr_Res(result);
}

static Addr add_context(ULong phases, UInt operation) {
  const SizeT bytes = MOST_STRETCHES * sizeof(ULong);
  ULong* const counters = _Generic(VG_(am_shadow_alloc)(bytes),
      SysRes: shadow_result,
      void*: shadow_address)(VG_(am_shadow_alloc)(bytes));
  if (counters == NULL) {
    VG_(umsg)("no memory to count how often instructions are executed\n");
    VG_(exit)(1);
  }
  contexts[contexts_used++] = (Context){phases, operation, counters};
  return (Addr)counters;
}

Addr executions_counters(ULong phases, UInt operation) {
  for (UInt i = CROWDED + 1; i < contexts_used; ++i)
    if (contexts[i].phases == phases && contexts[i].operation == operation)
      return (Addr)contexts[i].counters;
  if (contexts_used == MOST_CONTEXTS) return (Addr)contexts[CROWDED].counters;
  return add_context(phases, operation);
}

void executions_begin(void) {
  executions_were_asked = True;
  stretches = VG_(HT_construct)("tare.stretches");
  objects = VG_(newXA)(VG_(malloc), "tare.code objects", VG_(free), sizeof(Object));
  const Object none = {VG_(strdup)("tare.code object", ""), 0};
  VG_(addToXA)(objects, &none);
  add_context(0, OP_COUNT);
}

// ---- stretches ----

static UInt object_of(Addr address) {
  static Word latest;
  const DebugInfo* const info = VG_(find_DebugInfo)(VG_(current_DiEpoch)(), address);
  const HChar* const file = info == NULL ? NULL : VG_(DebugInfo_get_filename)(info);
  if (file == NULL) return 0;
  const Addr bias = (Addr)VG_(DebugInfo_get_text_bias)(info);
  const Word known = VG_(sizeXA)(objects);
  for (Word i = 0; i < known; ++i) {
    const Word place = (latest + i) % known;
    const Object* const object = VG_(indexXA)(objects, place);
    if (object->bias != bias || VG_(strcmp)(object->file, file) != 0) continue;
    latest = place;
    return (UInt)place;
  }
  const Object object = {VG_(strdup)("tare.code object", file), bias};
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

void executions_add_instruction(Translation* translation, Addr address, UInt bytes) {
  Stretch* const stretch = &draft.stretch;
  // Where the core has unrolled a loop, a block goes back.
  const Bool follows = address == stretch->address + stretch->bytes;
  if (stretch->instructions > 0 && (!follows || stretch->instructions == MOST_INSTRUCTIONS ||
                                    stretch->bytes + bytes > MOST_BYTES))
    bring_up_to_date(translation);
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

void executions_start_child(void) {
  has_files = False;
  for (UInt i = 0; i < contexts_used; ++i)
    VG_(memset)(contexts[i].counters, 0, stretches_used * sizeof(ULong));
}

// ---- writing ----

static const HChar* path_of(const HChar* ending) {
  static HChar path[PATH_BYTES];
  VG_(snprintf)(path, sizeof path, "%s.%s", base, ending);
  return path;
}

static void write_context(VgFile* file, const Context* context) {
  VG_(fprintf)(file, "{\"phases\": ");
  events_put_phase(file, context->phases);
  VG_(fprintf)(file, ", \"operation\": ");
  file_put_text(file, context->operation == OP_COUNT ? "" : operation_names[context->operation]);
  VG_(fprintf)(file, "}");
}

static void describe(const HChar* end, ULong clock) {
  VgFile* const file = file_begin(path_of("json"));
  if (file == NULL) return;
  VG_(fprintf)(file, "{\"format\": \"tare-code\", \"version\": %d,\n", FORMAT_VERSION);
  VG_(fprintf)(file, " \"pid\": %d, \"parent\": %d,\n \"program\": ", VG_(getpid)(),
               VG_(getppid)());
  file_put_text(file, VG_(args_the_exename));
  VG_(fprintf)(file, ",\n \"end\": \"%s\", \"instructions\": %llu,\n \"objects\": [", end, clock);
  for (Word i = 0; i < VG_(sizeXA)(objects); ++i) {
    const Object* const object = VG_(indexXA)(objects, i);
    VG_(fprintf)(file, "%s{\"file\": ", i == 0 ? "\n  " : ",\n  ");
    file_put_text(file, object->file);
    VG_(fprintf)(file, ", \"bias\": %lu}", object->bias);
  }
  VG_(fprintf)(file, "],\n \"contexts\": [");
  for (UInt i = 0; i < contexts_used; ++i) {
    VG_(fprintf)(file, "%s", i == 0 ? "\n  " : ",\n  ");
    write_context(file, &contexts[i]);
  }
  VG_(fprintf)(file, "],\n ");
  report_write_operations(file);
  VG_(fprintf)(file, "}\n");
  file_end(file, path_of("json"));
}

static Bool add_counts(Table* table, UInt stretch) {
  Bool executed = False;
  for (UInt i = 0; i < contexts_used; ++i) {
    const ULong count = contexts[i].counters[stretch];
    if (count == 0) continue;
    const ULong row[] = {stretch, i, count};
    table_add(table, row);
    executed = True;
  }
  return executed;
}

static void add_code(Table* table, const Stretch* stretch) {
  Addr address = stretch->address;
  const UChar* bytes = stretch->content + stretch->instructions;
  for (UInt i = 0; i < stretch->instructions; ++i) {
    const UInt length = stretch->content[i];
    ULong words[2] = {0, 0};
    VG_(memcpy)(words, bytes, length < sizeof words ? length : sizeof words);
    const ULong row[] = {stretch->number, stretch->object, address, length, words[0], words[1]};
    table_add(table, row);
    address += length;
    bytes += length;
  }
}

static Int by_number(const void* left, const void* right) {
  const Stretch *const one = *(Stretch* const*)left, *const other = *(Stretch* const*)right;
  return one->number < other->number ? -1 : one->number > other->number;
}

void executions_write(const HChar* folder, const HChar* end, ULong clock) {
  if (!has_files) file_claim(folder, "json", base);
  has_files = True;
  Table* const code =
      table_create(path_of("code"), "code", "stretch object address length low high");
  Table* const counts = table_create(path_of("executions"), "executions", "stretch context count");
  add_counts(counts, REST);
  UInt count;
  VgHashNode** const nodes = VG_(HT_to_array)(stretches, &count);
  // In the order in which the program came to them.
  VG_(ssort)(nodes, count, sizeof *nodes, by_number);
  for (UInt i = 0; i < count; ++i) {
    const Stretch* const stretch = (const Stretch*)nodes[i];
    if (add_counts(counts, stretch->number)) add_code(code, stretch);
  }
  if (nodes != NULL) VG_(free)(nodes);
  table_flush(code);
  table_flush(counts);
  table_abandon(code);
  table_abandon(counts);
  describe(end, clock);
}
