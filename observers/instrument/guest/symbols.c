// SPDX-License-Identifier: GPL-2.0-or-later
#include "symbols.h"

void symbols_visit(const DebugInfo* info, VisitSymbol visit, void* context) {
  const Int symbols = VG_(DebugInfo_syms_howmany)(info);
  for (Int i = 0; i < symbols; ++i) {
    SymAVMAs address;
    UInt size;
    const HChar* name;
    const HChar** others;
    Bool is_text, is_ifunc, is_global;
    VG_(DebugInfo_syms_getidx)
    (info, i, &address, &size, &name, &others, &is_text, &is_ifunc, &is_global);
    if (!is_text) continue;
    visit(info, name, address.main, is_ifunc, context);
    for (; others != NULL && *others != NULL; ++others)
      visit(info, *others, address.main, is_ifunc, context);
  }
}
