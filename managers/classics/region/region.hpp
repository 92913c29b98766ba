// One region for the whole program.

#pragma once

#include "tare/layers/locked.hpp"
#include "tare/layers/never_freed.hpp"
#include "tare/layers/region.hpp"
#include "tare/layers/size_headers.hpp"
#include "tare/layers/spin_lock.hpp"

namespace tare::classics {

template <layers::MemorySource Memory>
using Region = layers::Locked<layers::NeverFreed<layers::SizeHeaders<layers::Region<Memory>>>,
                              layers::SpinLockOfThreads>;

}  // namespace tare::classics
