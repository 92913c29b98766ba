// What the format of programs and objects has for the processor: the relocations by which an object
// reaches functions of others, and the processor's number.

#pragma once

#include "tare/platform/processor.hpp"
#include TARE_OF_PROCESSOR(elf.hpp)
