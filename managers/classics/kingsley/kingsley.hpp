// Chris Kingsley's malloc, of 4.2BSD (1982) and Ultrix.
//
// Other than published: the smallest block has 32 bytes, and blocks begin 8 bytes past a multiple
// of 16, so that objects are aligned to 16.

#pragma once

#include "tare/layers/locked.hpp"
#include "tare/layers/power_blocks.hpp"
#include "tare/layers/spin_lock.hpp"

namespace tare::classics {

template <layers::RisingSource Memory>
using Kingsley = layers::Locked<layers::PowerBlocks<Memory>, layers::SpinLockOfThreads>;

}  // namespace tare::classics
