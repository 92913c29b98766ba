// Doug Lea's malloc of libg++, as it was in 1993.

#pragma once

#include "tare/layers/lazy_tags.hpp"
#include "tare/layers/locked.hpp"
#include "tare/layers/spin_lock.hpp"

namespace tare::classics {

template <layers::RisingSource Memory>
using Lea93 = layers::Locked<layers::LazyTags<Memory>, layers::SpinLockOfThreads>;

}  // namespace tare::classics
