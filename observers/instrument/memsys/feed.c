// SPDX-License-Identifier: GPL-2.0-or-later
#include "feed.h"

#include "helper.h"

// There is room for what a basic block writes, since each makes it for the next.
enum { SPARE_WORDS = 1 + MOST_ACCESSES, MODELS_BYTES = 1 << 16 };

Bool feed_was_started;
static FetchRules fetch_rules;

// The stream goes from one buffer to the next.
enum { BUFFERS = 8 };
static ULong buffers[BUFFERS][STREAM_WORDS];
static UInt buffer;  // that is written
static ULong* position = buffers[0];
static const ULong* limit = buffers[0] + STREAM_WORDS - SPARE_WORDS;  // the last with room

// What the simulator was not given yet.
static Step next = {.word = buffers[0], .end = buffers[0]};
static ULong steps_of_buffer[BUFFERS];  // until then the simulator needs it

// ---- of the superblock that is being translated ----

static Draft draft;
static IRExpr* at;       // the position in the stream; NULL until it is needed
static IRExpr* waiting;  // the address of the latest place, which may still grow; or NULL

// For each temporary of the program, what it is a constant distance from.
typedef struct {
  IRTemp base;  // IRTemp_INVALID: it is a constant
  ULong distance;
} Origin;

static Origin* origins;
static UInt origins_capacity;
static Origin origin_of_waiting;

// While the simulator is behind it is waited for until it has half of the buffers to do, so that
// neither wakes the other for each.
static void begin_buffer(void) {
  if (helper_start()) {
    buffer = (buffer + 1) % BUFFERS;
    const ULong steps = steps_of_buffer[buffer];
    if (!helper_has_taken(steps)) helper_await(steps_of_buffer[(buffer + BUFFERS / 2) % BUFFERS]);
  }
  position = buffers[buffer];
  limit = position + STREAM_WORDS - SPARE_WORDS;
  next.word = position;
}

static void hand_on(void) {
  next.end = position;
  steps_of_buffer[buffer] = helper_give(&next);
  next.word = position;
  next.calls = 0;
  if (position > limit) begin_buffer();
}

void feed_drain(void) {
  hand_on();
  helper_await(steps_of_buffer[buffer]);
}

void feed_stop(void) {
  feed_drain();
  helper_stop();
}

static IRExpr* address_of_position(void) { return number((ULong)&position); }

static void need_position(Translation* translation) {
  if (at == NULL) at = load(translation, Ity_I64, address_of_position());
}

static IRExpr* words_further(Translation* translation, UInt words) {
  return binary(translation, Iop_Add64, at, number(words * sizeof(ULong)));
}

static void close_place(Translation* translation) {
  if (waiting == NULL) return;
  need_position(translation);
  if (draft.lowest != 0)
    waiting = binary(translation, Iop_Add64, waiting, number((ULong)(PtrdiffT)draft.lowest));
  store(translation, words_further(translation, draft.places), waiting);
  waiting = NULL;
}

// While the position is at hand. In this form the bound is part of the instruction that compares.
static void make_room(Translation* translation) {
  IRExpr* const last = load(translation, Ity_I64, number((ULong)&limit));
  IRExpr* const has_room = assign(translation, Ity_I1, IRExpr_Binop(Iop_CmpLE64U, at, last));
  IRDirty* const call =
      unsafeIRDirty_0_N(0, "hand_on", VG_(fnptr_to_fnentry)(hand_on), mkIRExprVec_0());
  call->guard = assign(translation, Ity_I1, IRExpr_Unop(Iop_Not1, has_room));
  addStmtToIRSB(translation->block, IRStmt_Dirty(call));
  at = NULL;
}

static ULong block_of_draft(void) {
  Bool is_new;
  const BasicBlock* const block = basic_block_of(&draft, &is_new);
  if (is_new) {
    Step step = next;
    step.block = block;
    step.end = step.word;
    step.calls = 0;
    helper_give(&step);
  }
  return (ULong)block;
}

static void close_basic_block(Translation* translation) {
  if (draft.instructions == 0 && draft.accesses == 0) return;
  close_place(translation);
  need_position(translation);
  store(translation, at, number(block_of_draft()));
  at = words_further(translation, 1 + draft.places);
  store(translation, address_of_position(), at);
  make_room(translation);
  draft_clear(&draft);
}

static Origin origin_of(const IRExpr* address) {
  return address->tag == Iex_RdTmp ? origins[address->Iex.RdTmp.tmp]
                                   : (Origin){IRTemp_INVALID, address->Iex.Const.con->Ico.U64};
}

static void follow_origin(const IRStmt* statement) {
  const IRExpr* data = statement->Ist.WrTmp.data;
  ULong distance = 0;
  if (data->tag == Iex_Binop && data->Iex.Binop.arg2->tag == Iex_Const &&
      (data->Iex.Binop.op == Iop_Add64 || data->Iex.Binop.op == Iop_Sub64)) {
    distance = data->Iex.Binop.arg2->Iex.Const.con->Ico.U64;
    if (data->Iex.Binop.op == Iop_Sub64) distance = -distance;
    data = data->Iex.Binop.arg1;
  }
  if (data->tag != Iex_RdTmp) return;
  Origin* const origin = &origins[statement->Ist.WrTmp.tmp];
  *origin = origins[data->Iex.RdTmp.tmp];
  origin->distance += distance;
}

static void begin_origins(UInt temporaries) {
  if (temporaries > origins_capacity) {
    origins_capacity = 2 * temporaries;
    origins = VG_(realloc)("tare.origins", origins, origins_capacity * sizeof *origins);
  }
  for (IRTemp each = 0; each < temporaries; ++each) origins[each] = (Origin){each, 0};
}

static void add_access(Translation* translation, IRExpr* address, UInt size, UInt flags,
                       IRExpr* guard) {
  const Origin origin = origin_of(address);
  if (guard == NULL && waiting != NULL && origin.base == origin_of_waiting.base &&
      draft_access_beside(&draft, (PtrdiffT)(origin.distance - origin_of_waiting.distance), size,
                          flags))
    return;
  close_place(translation);
  if (guard != NULL) {
    address = assign(translation, Ity_I64, IRExpr_ITE(guard, address, number(0)));
    flags |= CONDITIONAL;
  }
  waiting = address;
  origin_of_waiting = origin;
  draft_access(&draft, size, flags);
}

static UInt size_of(const Translation* translation, const IRExpr* expression) {
  return (UInt)sizeofIRType(typeOfIRExpr(translation->block->tyenv, expression));
}

static void add_instruction(Translation* translation, Addr address, UInt size) {
  if (!draft_has_room(&draft)) close_basic_block(translation);
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
  at = waiting = NULL;
  begin_origins((UInt)translation->block->tyenv->types_used);
}

void feed_statement(Translation* translation, const IRStmt* statement) {
  switch (statement->tag) {
    case Ist_IMark:
      add_instruction(translation, statement->Ist.IMark.addr, statement->Ist.IMark.len);
      break;
    case Ist_Exit:
      close_basic_block(translation);
      break;
    case Ist_WrTmp: {
      const IRExpr* const data = statement->Ist.WrTmp.data;
      follow_origin(statement);
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
  close_basic_block(translation);
  at = NULL;  // the call may empty the stream
}

void feed_end_block(Translation* translation) { feed_before_call(translation); }

void feed_set_operation(UInt operation, Addr caller) {
  if (next.operation == operation && next.caller == caller) return;
  next.operation = operation;
  next.caller = caller;
  hand_on();
}

void feed_count_call(void) { ++next.calls; }

void feed_set_phase(ULong phase) {
  if (next.phase == phase) return;
  next.phase = phase;
  hand_on();
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
  helper_forget();
  simulator_reset_counts();
}

void feed_start(const HChar* path, ULong (*bit_of_phase)(const HChar* name)) {
  static HChar text[MODELS_BYTES];
  const Int file = VG_(fd_open)(path, VKI_O_RDONLY, 0);
  if (file < 0) fail(path, "cannot be opened");
  const Int size = VG_(read)(file, text, sizeof text - 1);
  VG_(close)(file);
  if (size < 0 || size == sizeof text - 1) fail(path, "cannot be read, or is too long");
  const HChar* const wrong = simulator_read(text);
  if (wrong != NULL) fail(path, wrong);
  simulator_find_phases(bit_of_phase);
  fetch_rules = simulator_fetch_rules();
  VG_(atfork)(drain_before_fork, NULL, start_child);
  feed_was_started = True;
}
