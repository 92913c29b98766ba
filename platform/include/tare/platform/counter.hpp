// A counter that is the same on all processors of the machine, as a clock. A processor's part has
//   CounterIsSteady   whether there is one that runs at one speed, whatever the processor does
//   ReadCounter       maybe before what comes before it is done
//   FinishReads       after this the counter is read when everything before is done

#pragma once

#include "tare/platform/processor.hpp"
#include TARE_OF_PROCESSOR(counter.hpp)
