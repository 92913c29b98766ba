// SPDX-License-Identifier: GPL-2.0-or-later
// Who called: a shadow of each thread's calls.
//
// Translated code notes each call, by the stack pointer and the number of the call instruction, and
// takes the notes of what has returned away. So nothing is unwound at an allocation: the path in
// the tree is remembered with each note, and only calls made since the last allocation are looked
// up. The whole stack counts, however deep.

#ifndef TARE_INSTRUMENT_SITES_SHADOW_H
#define TARE_INSTRUMENT_SITES_SHADOW_H

#include "guest/registers.h"
#include "guest/translation.h"

void sites_initialise(void);
extern Bool sites_were_asked;
static inline Bool sites_are_on(void) { return FOLLOWS_MEMORY && sites_were_asked; }

// All below only where they are on.

// Code at the end of a block that calls, returns, or jumps with another stack pointer.
void sites_add_call(Translation* translation, Addr call);
void sites_add_return(Translation* translation);
void sites_add_jump(Translation* translation);

void sites_start_thread(ThreadId id, Registers* registers);

// A handler's calls stand above what it interrupted, wherever its stack is. Gives what
// sites_leave_handler takes to forget them.
Addr sites_enter_handler(Registers* registers);
void sites_leave_handler(Registers* registers, Addr before);

// The site that called what has just been entered with `stack_pointer`; 0 where there is none.
UInt site_of(Registers* registers, Addr stack_pointer);

// The site that called a function that has not returned, whose return address lies at
// `stack_pointer`.
UInt site_of_outer(const Registers* registers, Addr stack_pointer);

// In the child of a fork: a tree of its own.
void sites_start_child(Registers* registers, ThreadId id);

#endif
