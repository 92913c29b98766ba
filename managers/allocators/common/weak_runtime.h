// Included before C++ sources that throw or catch, to make what they need of the C++ runtime weak.
//
// Linked in, a second runtime cannot throw through the program's frames (its unwinder does not
// know the program's) and has a new handler of its own. Linked to dynamically, it would load the
// C++ library into programs written in C. Weak, each program has what it has: one in C never calls
// what would need it.

#pragma once

#ifdef __cplusplus
asm(".weak __gxx_personality_v0\n"
    ".weak __cxa_allocate_exception\n"
    ".weak __cxa_free_exception\n"
    ".weak __cxa_throw\n"
    ".weak __cxa_rethrow\n"
    ".weak __cxa_begin_catch\n"
    ".weak __cxa_end_catch\n"
    ".weak _Unwind_Resume\n"
    ".weak _ZSt9terminatev\n"
    ".weak _ZSt15get_new_handlerv\n"
    ".weak _ZSt17__throw_bad_allocv\n"
    ".weak _ZSt15set_new_handlerPFvvE\n"
    ".weak _ZSt20__throw_system_errori\n"
    ".weak _ZSt7nothrow\n"
    ".weak _ZTISt9bad_alloc\n"
    ".weak _ZTVSt9bad_alloc\n"
    ".weak _ZNSt9bad_allocC1Ev\n"
    ".weak _ZNSt9bad_allocD1Ev\n"
    ".weak _ZNSt9exceptionD2Ev\n");
#endif
