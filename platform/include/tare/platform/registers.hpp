// Registers of this thread and of an interrupted one. A processor's part has
//   CalleeSaved, Spill   those that a function must keep for its caller, stored; all others are on
//                        the stack already when the function is called
//   Interrupted          a view of the thread that a handler of a signal has interrupted. A call's
//                        first argument is `likely` where the call's result has taken its place
//   ContextOfHandler     of the handler in which it is inlined, whose third argument is given

#pragma once

#include "tare/platform/processor.hpp"
#if !__has_include(TARE_OF_PROCESSOR(registers.hpp))
#error "Tare's mark-sweep does not know the registers of this processor yet"
#endif
#include TARE_OF_PROCESSOR(registers.hpp)
