// SPDX-License-Identifier: GPL-2.0-or-later
// tareinst: counts the instructions of a program, inside and outside its memory manager.
//
// The manager is the program's own or a preloaded one: nothing is replaced, nothing is wrapped. An
// operation begins where control reaches the address of a symbol of the malloc family, and ends
// when a return, or another indirect jump, leaves the stack pointer above where it was then. That
// holds for tail calls, for exceptions and for longjmp; what an operation calls of the family
// itself is part of it.
//
// docs/instrument.md says how the figures are defined and what is not seen.

#include "core.h"
#include "counts.h"
#include "entries.h"
#include "objects.h"
#include "report.h"
#include "threads.h"

_Static_assert(sizeof VERSION == sizeof TARE_VALGRIND_VERSION, "built for Valgrind 3.19.0 only");

static const HChar* folder;

// ---- instrumentation ----

typedef struct {
  IRSB* block;
  PtrdiffT registers;  // offset of the thread's Registers in the guest state
  PtrdiffT stack_pointer;
  IRExpr* before;  // the counter at the block's start; NULL until it is needed
  UInt counted;    // instructions of the block so far
  UInt stored;     // of these, in the counter
} Translation;

static IRExpr* number(ULong value) { return IRExpr_Const(IRConst_U64(value)); }

static IRExpr* assign(Translation* translation, IRType type, IRExpr* expression) {
  const IRTemp temporary = newIRTemp(translation->block->tyenv, type);
  addStmtToIRSB(translation->block, IRStmt_WrTmp(temporary, expression));
  return IRExpr_RdTmp(temporary);
}

static IRExpr* get(Translation* translation, PtrdiffT offset) {
  return assign(translation, Ity_I64, IRExpr_Get((Int)offset, Ity_I64));
}

static IRExpr* get_register(Translation* translation, SizeT field) {
  return get(translation, translation->registers + (PtrdiffT)field);
}

static void bring_up_to_date(Translation* translation) {
  if (translation->counted == translation->stored) return;
  if (translation->before == NULL)
    translation->before = get_register(translation, offsetof(Registers, instructions));
  IRExpr* const after =
      assign(translation, Ity_I64,
             IRExpr_Binop(Iop_Add64, translation->before, number(translation->counted)));
  const PtrdiffT offset = translation->registers + (PtrdiffT)offsetof(Registers, instructions);
  addStmtToIRSB(translation->block, IRStmt_Put((Int)offset, after));
  translation->stored = translation->counted;
}

// A call of `function` with the guest state and `argument`, where `guard` holds.
static void call_if(Translation* translation, IRExpr* guard, const HChar* name, void* function,
                    IRExpr* argument) {
  IRDirty* const call = unsafeIRDirty_0_N(2, name, VG_(fnptr_to_fnentry)(function),
                                          mkIRExprVec_2(IRExpr_GSPTR(), argument));
  call->guard = guard;
  const struct {
    IREffect effect;
    PtrdiffT offset;
    SizeT size;
  } touched[] = {
      {Ifx_Modify, translation->registers, sizeof(Registers)},
      {Ifx_Read, translation->stack_pointer, sizeof(ULong)},
      {Ifx_Read, offsetof(VexGuestAMD64State, guest_RAX), sizeof(ULong)},
      {Ifx_Read, offsetof(VexGuestAMD64State, guest_RDI), sizeof(ULong)},
      {Ifx_Read, offsetof(VexGuestAMD64State, guest_RSI), sizeof(ULong)},
      {Ifx_Read, offsetof(VexGuestAMD64State, guest_RDX), sizeof(ULong)},
  };
  call->nFxState = sizeof touched / sizeof *touched;
  VG_(memset)(call->fxState, 0, sizeof call->fxState);
  for (Int i = 0; i < call->nFxState; ++i) {
    call->fxState[i].fx = touched[i].effect;
    call->fxState[i].offset = (UShort)touched[i].offset;
    call->fxState[i].size = (UShort)touched[i].size;
  }
  addStmtToIRSB(translation->block, IRStmt_Dirty(call));
}

// Entries begin a block in all code seen so far: they are called or jumped to.
static void add_entry(Translation* translation, const Entry* entry) {
  bring_up_to_date(translation);
  IRExpr* const inside = get_register(translation, offsetof(Registers, inside));
  IRExpr* const outside = assign(translation, Ity_I1, IRExpr_Binop(Iop_CmpEQ64, inside, number(0)));
  call_if(translation, outside, "enter_operation", enter_operation, number((ULong)entry));
}

static void add_exit(Translation* translation, IRExpr* next) {
  IRExpr* const bound = get_register(translation, offsetof(Registers, leaves_above));
  IRExpr* const stack_pointer = get(translation, translation->stack_pointer);
  IRExpr* const above =
      assign(translation, Ity_I1, IRExpr_Binop(Iop_CmpLT64U, bound, stack_pointer));
  call_if(translation, above, "leave_operation", leave_operation, next);
}

static IRSB* instrument(VgCallbackClosure* closure, IRSB* in, const VexGuestLayout* layout,
                        const VexGuestExtents* extents, const VexArchInfo* host, IRType guest_word,
                        IRType host_word) {
  (void)closure, (void)extents, (void)host, (void)guest_word, (void)host_word;
  Translation translation = {
      .block = deepCopyIRSBExceptStmts(in),
      .registers = REGISTERS_AREA * layout->total_sizeB + REGISTERS_OFFSET,
      .stack_pointer = layout->offset_SP,
  };
  Bool moves_stack = False;
  for (Int i = 0; i < in->stmts_used; ++i) {
    IRStmt* const statement = in->stmts[i];
    if (statement == NULL || statement->tag == Ist_NoOp) continue;
    if (statement->tag == Ist_Exit) bring_up_to_date(&translation);
    addStmtToIRSB(translation.block, statement);
    if (statement->tag == Ist_Put && statement->Ist.Put.offset == layout->offset_SP)
      moves_stack = True;
    if (statement->tag != Ist_IMark) continue;
    const Entry* const entry = entry_at(statement->Ist.IMark.addr);
    if (entry != NULL) add_entry(&translation, entry);
    ++translation.counted;
  }
  bring_up_to_date(&translation);
  // A longjmp and the landing of an exception set the stack pointer and jump; the jump of a
  // procedure linkage table, by far the commonest indirect one, leaves it alone.
  const Bool is_indirect = in->next->tag != Iex_Const;
  if (in->jumpkind == Ijk_Ret || (in->jumpkind == Ijk_Boring && is_indirect && moves_stack))
    add_exit(&translation, in->next);
  return translation.block;
}

// ---- life of the process ----

static const HChar* const exec_end = "exec";

static Bool replaces_program(UInt number) {
  return number == __NR_execve || number == __NR_execveat;
}

static void before_syscall(ThreadId thread, UInt number, UWord* arguments, UInt count) {
  (void)thread, (void)arguments, (void)count;
  // Nothing of this process is left to write a file once the exec has worked.
  if (folder != NULL && replaces_program(number))
    report_write(folder, exec_end, instructions_of_living_threads());
}

static void after_syscall(ThreadId thread, UInt number, UWord* arguments, UInt count,
                          SysRes result) {
  (void)thread, (void)number, (void)arguments, (void)count, (void)result;
}

static void start_child(ThreadId thread) {
  (void)thread;
  report_forget_file();
}

static void finish(Int exit_code) {
  (void)exit_code;
  threads_finish();
  if (folder != NULL) report_write(folder, "exit", 0);
}

// ---- options ----

static Bool process_option(const HChar* argument) {
  if VG_STR_CLO (argument, "--count-folder", folder) {
    return True;
  }
  return False;
}

static void print_usage(void) {
  VG_(printf)("    --count-folder=DIR   write a file per process into DIR\n");
}

static void print_debug_usage(void) {}

static void after_options(void) {
  // A chased block would run past the entry of an operation, and past its return.
  VG_(clo_vex_control).guest_chase = False;
  counts_reset();
}

static void before_options(void) {
  VG_(details_name)("tareinst");
  VG_(details_version)(NULL);
  VG_(details_description)("instructions inside and outside the memory manager");
  VG_(details_copyright_author)("Copyright (C) 2026, and GNU GPL'd, by the authors of Tare.");
  VG_(details_bug_reports_to)("the authors of Tare");
  VG_(basic_tool_funcs)(after_options, instrument, finish);
  VG_(needs_command_line_options)(process_option, print_usage, print_debug_usage);
  VG_(needs_syscall_wrapper)(before_syscall, after_syscall);
  entries_initialise();
  objects_initialise();
  threads_initialise();
  VG_(atfork)(NULL, NULL, start_child);
}

VG_DETERMINE_INTERFACE_VERSION(before_options)
