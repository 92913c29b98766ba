// The relocations by which an object reaches functions of others.

#pragma once

#include "tare/platform/processor.hpp"
#include TARE_OF_PROCESSOR(relocations.hpp)
