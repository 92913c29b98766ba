// Included before each source, beside weak_runtime.h. What tcmalloc tells of itself as a string is
// made of these; nobody can ask for it, as only the malloc family is shown. Weak, they do not bring
// a second C++ runtime into the object.

#pragma once

#ifdef __cplusplus
asm(".weak _ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE6resizeEmc\n"
    ".weak _ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_appendEPKcm\n"
    ".weak _ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_createERmm\n"
    ".weak _ZSt19__throw_logic_errorPKc\n"
    ".weak _ZSt20__throw_length_errorPKc\n"
    ".weak __cxa_throw_bad_array_new_length\n");
#endif
