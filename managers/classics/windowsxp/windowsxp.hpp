// The heap of Windows XP as Berger, Zorn and McKinley (2002) describe it.
//
// Other than published: lists for multiples of 16 bytes instead of 8, because alignment and
// pointers have doubled; and free blocks in lists by powers of two, of which the first with a fit
// is searched for the best, where the paper has one sorted list. The block chosen has the same
// size.

#pragma once

#include "tare/layers/boundary_tags.hpp"
#include "tare/layers/locked.hpp"
#include "tare/layers/quick_lists.hpp"
#include "tare/layers/spin_lock.hpp"

namespace tare::classics {

template <layers::RisingSource Memory>
using WindowsXp =
    layers::Locked<layers::QuickLists<layers::BoundaryTags<Memory, layers::BestFit>, 127>,
                   layers::SpinLockOfThreads>;

}  // namespace tare::classics
