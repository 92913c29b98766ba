// Pause, for a loop that waits for another processor.

#pragma once

#include "tare/platform/processor.hpp"
#include TARE_OF_PROCESSOR(pause.hpp)
