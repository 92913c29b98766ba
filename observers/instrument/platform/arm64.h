// SPDX-License-Identifier: GPL-2.0-or-later

#ifndef TARE_INSTRUMENT_PLATFORM_ARM64_H
#define TARE_INSTRUMENT_PLATFORM_ARM64_H

#include <stddef.h>

#include "core.h"

enum { FOLLOWS_MEMORY = True };

typedef VexGuestARM64State GuestState;
#define GUEST_STACK_POINTER guest_XSP
#define GUEST_RESULT guest_X0

#define WORD_TYPE Ity_I64
#define WORD_ADD Iop_Add64
#define WORD_EQUAL Iop_CmpEQ64
#define WORD_BELOW Iop_CmpLT64U

static inline IRExpr* word(Addr value) { return IRExpr_Const(IRConst_U64(value)); }

// The core passes all arguments of a helper by registers here, and does not ask for how many.
enum { HELPER_REGISTERS = 0 };
#define HELPER

enum { STORES_IF = False };  // the core knows no stores with a guard here

#define SIZE_IN_CPP_NAMES "m"  // size_t

// ---- Procedure Call Standard for the Arm 64-bit Architecture (AAPCS64) ----

enum { RED_ZONE = 0 };

// A call moves no stack pointer, and a return leaves it where it was at the callee's first
// instruction. Calls that have not returned have moved it since: each has to keep its X30.
enum { CALL_PLACE = 1 };

static inline Addr guest_return_address(const GuestState* state) { return state->guest_X30; }

static inline Addr guest_argument(const GuestState* state, UInt number) {
  return number == 0 ? state->guest_X0 : number == 1 ? state->guest_X1 : state->guest_X2;
}

enum { ARGUMENT_REGISTERS = 4 };
static const PtrdiffT argument_registers[ARGUMENT_REGISTERS] = {
    offsetof(GuestState, guest_X0), offsetof(GuestState, guest_X1), offsetof(GuestState, guest_X2),
    offsetof(GuestState, guest_X30)};

// X0 to X30 lie one after the other, the stack pointer behind them.
enum {
  CHANGED_BY_CALLS = offsetof(GuestState, guest_X0),
  CHANGED_BY_CALLS_END = offsetof(GuestState, guest_PC),
};

// By the core's name of a register: x19 to x29.
static inline Bool is_kept_by_calls(const HChar* name) {
  const Long number = VG_(strtoll10)(name + 1, NULL);
  return number >= 19 && number <= 29;
}

enum { CALLER_SAVED = 19 };  // X0 to X18

typedef struct {
  ULong x[CALLER_SAVED], x30;
} CallerSaved;

static inline CallerSaved caller_saved(const GuestState* state) {
  CallerSaved saved = {.x30 = state->guest_X30};
  const ULong* const x = &state->guest_X0;
  for (UInt i = 0; i < CALLER_SAVED; ++i) saved.x[i] = x[i];
  return saved;
}

static inline void restore_caller_saved(GuestState* state, const CallerSaved* saved) {
  ULong* const x = &state->guest_X0;
  for (UInt i = 0; i < CALLER_SAVED; ++i) x[i] = saved->x[i];
  state->guest_X30 = saved->x30;
}

// As if the program had called a function of one argument, which returns to `next`.
static inline void push_call(GuestState* state, Addr argument, Addr next) {
  state->guest_X0 = argument;
  state->guest_X30 = next;
}

// ---- what the bytes of an instruction say ----

static inline Bool repeats_bytes(Addr instruction) {
  (void)instruction;
  return False;
}

// B.cond, CBZ, CBNZ, TBZ or TBNZ.
static inline Bool is_branch(Addr instruction) {
  const UInt code = *(const UInt*)instruction;
  return (code & 0xff000000) == 0x54000000 || (code & 0x7c000000) == 0x34000000;
}

#endif
