// Hoard, after Berger, McKinley, Blumofe and Wilson (2000). A heap of which more than a quarter and
// more than four superblocks are free gives one of the emptiest to the global heap.
//
// Other than published: a superblock is found from an address by its alignment, and there are 16
// heaps on any machine, where Hoard has as many as the processors ask for.

#pragma once

#include "tare/layers/processor_heaps.hpp"
#include "tare/layers/spin_lock.hpp"

namespace tare::classics {

template <layers::MemorySource Memory>
using HoardClassic =
    layers::ProcessorHeaps<Memory, layers::Exponential<120, 4048>, layers::SpinLockOfThreads>;

}  // namespace tare::classics
