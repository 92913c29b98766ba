// Chris Kingsley's malloc, of 4.2BSD (1982) and Ultrix.

#pragma once

#include "tare/layers/locked.hpp"
#include "tare/layers/power_blocks.hpp"
#include "tare/layers/spin_lock.hpp"

namespace tare::classics {

template <layers::RisingSource Memory>
using Kingsley = layers::Locked<layers::PowerBlocks<Memory>, layers::SpinLockOfThreads>;

}  // namespace tare::classics
