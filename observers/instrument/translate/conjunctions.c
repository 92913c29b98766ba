// SPDX-License-Identifier: GPL-2.0-or-later
#include "conjunctions.h"

#include "executions/clock.h"
#include "guest/registers.h"

// Where two branches form "a && b" the core may make one block of both, in which what computes b
// comes before the only exit, and that is guarded by both. Then the instructions of b, which touch
// no memory, are executed by the program only where a holds.
typedef struct {
  IRExpr* first;      // a; NULL: the guard is of another form
  Bool exits_unless;  // the exit is taken unless both hold
} Guard;

static const IRExpr* definition(const IRSB* in, const IRExpr* temporary) {
  if (temporary->tag != Iex_RdTmp) return temporary;
  for (Int i = in->stmts_used - 1; i >= 0; --i) {
    const IRStmt* const statement = in->stmts[i];
    if (statement->tag == Ist_WrTmp && statement->Ist.WrTmp.tmp == temporary->Iex.RdTmp.tmp)
      return statement->Ist.WrTmp.data;
  }
  return temporary;
}

static Guard read_guard(const IRSB* in, const IRExpr* guard) {
  const IRExpr* data = definition(in, guard);
  const Bool exits_unless = data->tag == Iex_Unop && data->Iex.Unop.op == Iop_Not1;
  if (exits_unless) data = definition(in, data->Iex.Unop.arg);
  if (data->tag != Iex_Binop || data->Iex.Binop.op != Iop_And1) return (Guard){NULL, False};
  return (Guard){data->Iex.Binop.arg2, exits_unless};
}

void add_side_exit(Translation* translation, const IRSB* in, IRStmt* exit, UInt certain) {
  const Guard guard = certain == 0 ? (Guard){NULL, False} : read_guard(in, exit->Ist.Exit.guard);
  if (guard.first == NULL) {
    bring_up_to_date(translation);
    addStmtToIRSB(translation->block, exit);
    return;
  }
  const UInt stored = translation->stored, counted = translation->counted;
  if (guard.exits_unless) {
    add_to_clock(translation, assign(translation, Ity_I64,
                                     IRExpr_ITE(guard.first, number(counted - stored),
                                                number((ULong)certain - stored))));
    translation->stored = counted;
    addStmtToIRSB(translation->block, exit);
  } else {
    bring_up_to_date(translation);
    addStmtToIRSB(translation->block, exit);
    add_to_clock(translation,
                 assign(translation, Ity_I64,
                        IRExpr_ITE(guard.first, number(0), number((ULong)certain - counted))));
    translation->before = NULL;
    translation->counted = translation->stored = 0;
  }
}
