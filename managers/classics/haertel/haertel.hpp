// Mike Haertel's malloc, of 1989 to 1993, from which came that of GNU.
//
// Other than published: free pages at the end of the heap are not given back to the system.

#pragma once

#include "tare/layers/locked.hpp"
#include "tare/layers/page_fragments.hpp"
#include "tare/layers/spin_lock.hpp"

namespace tare::classics {

template <layers::RisingSource Memory>
using Haertel = layers::Locked<layers::PageFragments<Memory>, layers::SpinLockOfThreads>;

}  // namespace tare::classics
