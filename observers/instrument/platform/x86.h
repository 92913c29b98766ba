// SPDX-License-Identifier: GPL-2.0-or-later

#ifndef TARE_INSTRUMENT_PLATFORM_X86_H
#define TARE_INSTRUMENT_PLATFORM_X86_H

#include <stddef.h>

#include "core.h"
#include "x86_code.h"

enum { FOLLOWS_MEMORY = False };

typedef VexGuestX86State GuestState;
#define GUEST_STACK_POINTER guest_ESP
#define GUEST_RESULT guest_EAX

#define WORD_TYPE Ity_I32
#define WORD_ADD Iop_Add32
#define WORD_EQUAL Iop_CmpEQ32
#define WORD_BELOW Iop_CmpLT32U

static inline IRExpr* word(Addr value) { return IRExpr_Const(IRConst_U32(value)); }

// The core's x86 code passes the guest state to a guarded call on the stack only.
enum { HELPER_REGISTERS = 0 };
#define HELPER

#define SIZE_IN_CPP_NAMES "j"  // size_t

// ---- System V ABI ----

enum { RED_ZONE = 0 };

enum { CALL_PLACE = 0 };  // a call pushes its return address, and a return pops it

static inline Addr guest_return_address(const GuestState* state) {
  return *(const Addr*)state->guest_ESP;
}

static inline Addr guest_argument(const GuestState* state, UInt number) {
  return ((const Addr*)state->guest_ESP)[1 + number];
}

enum { ARGUMENT_REGISTERS = 0 };
static const PtrdiffT argument_registers[1];

// EAX to ESP lie one after the other.
enum {
  CHANGED_BY_CALLS = offsetof(GuestState, guest_EAX),
  CHANGED_BY_CALLS_END = offsetof(GuestState, guest_EBP),
};

typedef struct {
  UInt eax, ecx, edx;
} CallerSaved;

#endif
