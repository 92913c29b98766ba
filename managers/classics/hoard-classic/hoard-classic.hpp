// Hoard, after Berger, McKinley, Blumofe and Wilson (2000).

#pragma once

#include "tare/layers/processor_heaps.hpp"
#include "tare/layers/spin_lock.hpp"

namespace tare::classics {

template <layers::MemorySource Memory>
using HoardClassic =
    layers::ProcessorHeaps<Memory, layers::Exponential<120, 4048>, layers::SpinLockOfThreads>;

}  // namespace tare::classics
