// A free list for each size, over a region: the allocators that programs write for their classes.

#pragma once

#include "tare/layers/locked.hpp"
#include "tare/layers/region.hpp"
#include "tare/layers/size_classes.hpp"
#include "tare/layers/size_headers.hpp"
#include "tare/layers/spin_lock.hpp"

namespace tare::classics {

// Each multiple of 16 bytes up to 1 KiB, and powers of two above.
using SizesOfClasses = layers::MultiplesThenPowers<16, 64, 47>;

template <layers::MemorySource Memory>
using PerClass =
    layers::Locked<layers::SizeClasses<SizesOfClasses, layers::SizeHeaders<layers::Region<Memory>>>,
                   layers::SpinLockOfThreads>;

}  // namespace tare::classics
