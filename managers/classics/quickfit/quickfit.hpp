// Charles Weinstock and William Wulf's QuickFit (1988), over the heap that Grunwald gave it.
//
// Other than published: lists for multiples of 16 bytes; an empty list is filled from the heap of
// lea93, one object at a time.

#pragma once

#include "tare/layers/lazy_tags.hpp"
#include "tare/layers/locked.hpp"
#include "tare/layers/quick_lists.hpp"
#include "tare/layers/spin_lock.hpp"

namespace tare::classics {

// For objects of up to 128 bytes.
template <layers::RisingSource Memory>
using QuickFit =
    layers::Locked<layers::QuickLists<layers::LazyTags<Memory>, 8>, layers::SpinLockOfThreads>;

}  // namespace tare::classics
