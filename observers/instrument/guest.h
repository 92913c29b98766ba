// SPDX-License-Identifier: GPL-2.0-or-later
// What differs between the tool for 64-bit programs and the one for 32-bit programs. The latter
// counts instructions, in phases and operations; it follows no objects and no accesses to memory,
// whose maps need more addresses than 32 bits have. What stands behind a constant that is False is
// not compiled, and its files are not linked.

#ifndef TARE_INSTRUMENT_GUEST_H
#define TARE_INSTRUMENT_GUEST_H

#include "core.h"

#if defined(VGA_amd64)

enum { FOLLOWS_MEMORY = True };

typedef VexGuestAMD64State GuestState;
#define GUEST_STACK_POINTER guest_RSP
#define GUEST_RESULT guest_RAX

#define WORD_TYPE Ity_I64
#define WORD_ADD Iop_Add64
#define WORD_EQUAL Iop_CmpEQ64
#define WORD_BELOW Iop_CmpLT64U

static inline IRExpr* word(Addr value) { return IRExpr_Const(IRConst_U64(value)); }

// How translated code passes arguments to a helper: by so many registers.
enum { HELPER_REGISTERS = 2 };
#define HELPER VG_REGPARM(2)

// System V ABI.
static inline Addr guest_argument(const GuestState* state, UInt number) {
  return number == 0 ? state->guest_RDI : number == 1 ? state->guest_RSI : state->guest_RDX;
}

#else

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

static inline Addr guest_argument(const GuestState* state, UInt number) {
  return ((const Addr*)state->guest_ESP)[1 + number];
}

#endif

#endif
