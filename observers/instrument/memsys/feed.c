// SPDX-License-Identifier: GPL-2.0-or-later
#include "feed.h"

#include "simulator.h"

// Room for what one block writes between two looks at the bound.
enum { SPARE_WORDS = 2 * MOST_ACCESSES, MODELS_BYTES = 1 << 16 };

static Bool is_on;
static FetchRules fetch_rules;

static ULong stream[STREAM_WORDS];
static ULong* position = stream;

// ---- of the block that is being translated ----

static Draft draft;
static IRExpr* at;        // the position in the stream; NULL until it is needed
static UInt block_words;  // since the bound was looked at

Bool feed_is_on(void) { return is_on; }

void feed_drain(void) {
  simulator_run(stream, position);
  position = stream;
}

static IRExpr* address_of_position(void) { return number((ULong)&position); }

static void need_position(Translation* translation) {
  if (at == NULL) at = load(translation, Ity_I64, address_of_position());
}

static IRExpr* words_further(Translation* translation, UInt words) {
  return binary(translation, Iop_Add64, at, number(words * sizeof(ULong)));
}

static void make_room(Translation* translation) {
  need_position(translation);
  IRExpr* const full =
      binary(translation, Iop_CmpLT64U, number((ULong)(stream + STREAM_WORDS - SPARE_WORDS)), at);
  IRDirty* const call =
      unsafeIRDirty_0_N(0, "feed_drain", VG_(fnptr_to_fnentry)(feed_drain), mkIRExprVec_0());
  call->guard = full;
  addStmtToIRSB(translation->block, IRStmt_Dirty(call));
  at = NULL;
  block_words = 0;
}

static void close_stretch(Translation* translation) {
  if (draft.instructions == 0 && draft.accesses == 0) return;
  need_position(translation);
  store(translation, at, number((ULong)stretch_of(&draft)));
  at = words_further(translation, 1 + draft.accesses);
  store(translation, address_of_position(), at);
  block_words += 1 + draft.accesses;
  draft_clear(&draft);
}

static void add_access(Translation* translation, IRExpr* address, UInt size, UInt flags,
                       IRExpr* guard) {
  need_position(translation);
  if (guard != NULL) {
    address = assign(translation, Ity_I64, IRExpr_ITE(guard, address, number(0)));
    flags |= CONDITIONAL;
  }
  store(translation, words_further(translation, 1 + draft.accesses), address);
  draft_access(&draft, size, flags);
}

static UInt size_of(const Translation* translation, const IRExpr* expression) {
  return (UInt)sizeofIRType(typeOfIRExpr(translation->block->tyenv, expression));
}

static void add_instruction(Translation* translation, Addr address, UInt size) {
  if (!draft_has_room(&draft)) close_stretch(translation);
  if (block_words + MOST_ACCESSES > SPARE_WORDS) {
    close_stretch(translation);
    make_room(translation);
  }
  draft_instruction(&draft, address, size, &fetch_rules);
}

static void add_guarded_load(Translation* translation, const IRLoadG* loaded) {
  IRType result, in_memory;
  typeOfIRLoadGOp(loaded->cvt, &result, &in_memory);
  add_access(translation, loaded->addr, (UInt)sizeofIRType(in_memory), 0, loaded->guard);
}

static void add_helper(Translation* translation, const IRDirty* helper) {
  if (helper->mFx == Ifx_Read || helper->mFx == Ifx_Modify)
    add_access(translation, helper->mAddr, (UInt)helper->mSize, 0, NULL);
  if (helper->mFx == Ifx_Write || helper->mFx == Ifx_Modify)
    add_access(translation, helper->mAddr, (UInt)helper->mSize, WRITES, NULL);
}

static void add_compare_and_swap(Translation* translation, const IRCAS* swap) {
  const UInt size = size_of(translation, swap->dataLo) * (swap->dataHi != NULL ? 2 : 1);
  add_access(translation, swap->addr, size, 0, NULL);
  add_access(translation, swap->addr, size, WRITES, NULL);
}

void feed_begin_block(Translation* translation) {
  draft_clear(&draft);
  at = NULL;
  make_room(translation);
}

void feed_statement(Translation* translation, const IRStmt* statement) {
  switch (statement->tag) {
    case Ist_IMark:
      add_instruction(translation, statement->Ist.IMark.addr, statement->Ist.IMark.len);
      break;
    case Ist_Exit:
      close_stretch(translation);
      break;
    case Ist_WrTmp: {
      const IRExpr* const data = statement->Ist.WrTmp.data;
      if (data->tag == Iex_Load)
        add_access(translation, data->Iex.Load.addr, (UInt)sizeofIRType(data->Iex.Load.ty), 0,
                   NULL);
      break;
    }
    case Ist_Store:
      add_access(translation, statement->Ist.Store.addr,
                 size_of(translation, statement->Ist.Store.data), WRITES, NULL);
      break;
    case Ist_StoreG: {
      const IRStoreG* const stored = statement->Ist.StoreG.details;
      add_access(translation, stored->addr, size_of(translation, stored->data), WRITES,
                 stored->guard);
      break;
    }
    case Ist_LoadG:
      add_guarded_load(translation, statement->Ist.LoadG.details);
      break;
    case Ist_CAS:
      add_compare_and_swap(translation, statement->Ist.CAS.details);
      break;
    case Ist_Dirty:
      add_helper(translation, statement->Ist.Dirty.details);
      break;
    default:
      break;
  }
}

void feed_before_call(Translation* translation) {
  close_stretch(translation);
  at = NULL;  // the call may empty the stream
}

void feed_end_block(Translation* translation) { feed_before_call(translation); }

void feed_set_operation(UInt operation, Addr caller) {
  if (simulator_charges(operation, caller)) return;
  feed_drain();
  simulator_set_operation(operation, caller);
}

void feed_count_call(void) { simulator_count_call(); }

void feed_set_phase(UInt phase) {
  feed_drain();
  simulator_set_phase(phase);
}

static void fail(const HChar* path, const HChar* reason) {
  VG_(umsg)("%s: %s\n", path, reason);
  VG_(exit)(1);
}

static void drain_before_fork(ThreadId thread) {
  (void)thread;
  feed_drain();
}

static void start_child(ThreadId thread) {
  (void)thread;
  simulator_reset_counts();
}

void feed_start(const HChar* path) {
  static HChar text[MODELS_BYTES];
  const Int file = VG_(fd_open)(path, VKI_O_RDONLY, 0);
  if (file < 0) fail(path, "cannot be opened");
  const Int size = VG_(read)(file, text, sizeof text - 1);
  VG_(close)(file);
  if (size < 0 || size == sizeof text - 1) fail(path, "cannot be read, or is too long");
  const HChar* const wrong = simulator_read(text);
  if (wrong != NULL) fail(path, wrong);
  fetch_rules = simulator_fetch_rules();
  VG_(atfork)(drain_before_fork, NULL, start_child);
  is_on = True;
}
