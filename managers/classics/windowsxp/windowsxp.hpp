// The heap of Windows XP as Berger, Zorn and McKinley (2002) describe it.

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
