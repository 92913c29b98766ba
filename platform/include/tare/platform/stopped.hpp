// The registers of a thread of another process, which this one has stopped. A processor's part has
//   StoppedRegisters   read and written as a whole, and what it takes to have it call a function

#pragma once

#include "tare/platform/processor.hpp"
#if !__has_include(TARE_OF_PROCESSOR(stopped.hpp))
#error "Tare cannot have processes of this processor call functions yet"
#endif
#include TARE_OF_PROCESSOR(stopped.hpp)
