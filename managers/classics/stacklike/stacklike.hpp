// The allocator of 197.parser in SPECint2000, without its bound of 30 MB.

#pragma once

#include "tare/layers/locked.hpp"
#include "tare/layers/spin_lock.hpp"
#include "tare/layers/stack_like.hpp"

namespace tare::classics {

template <layers::RisingSource Memory>
using StackLike = layers::Locked<layers::StackLike<Memory>, layers::SpinLockOfThreads>;

}  // namespace tare::classics
