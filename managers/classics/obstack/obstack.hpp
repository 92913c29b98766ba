// The GNU C library's obstacks, behind malloc and free.

#pragma once

#include "tare/layers/locked.hpp"
#include "tare/layers/newest_freed.hpp"
#include "tare/layers/obstack.hpp"
#include "tare/layers/size_headers.hpp"
#include "tare/layers/spin_lock.hpp"

namespace tare::classics {

template <layers::MemorySource Memory>
using Obstack = layers::Locked<layers::NewestFreed<layers::SizeHeaders<layers::Obstack<Memory>>>,
                               layers::SpinLockOfThreads>;

}  // namespace tare::classics
