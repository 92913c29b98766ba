// SPDX-License-Identifier: GPL-2.0-or-later

#ifndef TARE_INSTRUMENT_PLATFORM_AMD64_H
#define TARE_INSTRUMENT_PLATFORM_AMD64_H

#include <stddef.h>

#include "core.h"
#include "x86_code.h"

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

enum { STORES_IF = True };  // the core knows stores with a guard here

#define SIZE_IN_CPP_NAMES "m"  // size_t

// ---- System V ABI ----

enum { RED_ZONE = 128 };  // bytes below the stack pointer that are in use

enum { CALL_PLACE = 0 };  // a call pushes its return address, and a return pops it

static inline Addr guest_return_address(const GuestState* state) {
  return *(const Addr*)state->guest_RSP;
}

static inline Addr guest_argument(const GuestState* state, UInt number) {
  return number == 0 ? state->guest_RDI : number == 1 ? state->guest_RSI : state->guest_RDX;
}

// The registers that guest_argument() reads, as offsets in the state.
enum { ARGUMENT_REGISTERS = 3 };
static const PtrdiffT argument_registers[ARGUMENT_REGISTERS] = {offsetof(GuestState, guest_RDI),
                                                                offsetof(GuestState, guest_RSI),
                                                                offsetof(GuestState, guest_RDX)};

// RAX to R11 lie one after the other, the stack pointer among them.
enum {
  CHANGED_BY_CALLS = offsetof(GuestState, guest_RAX),
  CHANGED_BY_CALLS_END = offsetof(GuestState, guest_R12),
};

// By the core's name of a register.
static inline Bool is_kept_by_calls(const HChar* name) {
  static const HChar* const kept[] = {"RBX", "RSP", "RBP", "R12", "R13", "R14", "R15"};
  for (UInt i = 0; i < sizeof kept / sizeof *kept; ++i)
    if (VG_STREQ(name, kept[i])) return True;
  return False;
}

typedef struct {
  ULong rax, rcx, rdx, rsi, rdi, r8, r9, r10, r11;
} CallerSaved;

static inline CallerSaved caller_saved(const GuestState* state) {
  return (CallerSaved){.rax = state->guest_RAX,
                       .rcx = state->guest_RCX,
                       .rdx = state->guest_RDX,
                       .rsi = state->guest_RSI,
                       .rdi = state->guest_RDI,
                       .r8 = state->guest_R8,
                       .r9 = state->guest_R9,
                       .r10 = state->guest_R10,
                       .r11 = state->guest_R11};
}

static inline void restore_caller_saved(GuestState* state, const CallerSaved* saved) {
  state->guest_RAX = saved->rax;
  state->guest_RCX = saved->rcx;
  state->guest_RDX = saved->rdx;
  state->guest_RSI = saved->rsi;
  state->guest_RDI = saved->rdi;
  state->guest_R8 = saved->r8;
  state->guest_R9 = saved->r9;
  state->guest_R10 = saved->r10;
  state->guest_R11 = saved->r11;
}

// As if the program had called a function of one argument, which returns to `next`.
static inline void push_call(GuestState* state, Addr argument, Addr next) {
  state->guest_RDI = argument;
  state->guest_RSP -= sizeof(Addr);
  *(Addr*)state->guest_RSP = next;
}

#endif
