// Doug Lea's malloc of libg++, as it was in 1993.
//
// Other than published: a tag before the block and a link to the one before instead of tags at both
// ends, and a bit for each bin that holds blocks. Version 2.5, made ready for the study of Detlefs,
// Dosser and Zorn, also has two lists in each bin, keeps the last remainder apart, and cuts several
// blocks ahead when a size is asked for twice in a row.

#pragma once

#include "tare/layers/lazy_tags.hpp"
#include "tare/layers/locked.hpp"
#include "tare/layers/spin_lock.hpp"

namespace tare::classics {

template <layers::RisingSource Memory>
using Lea93 = layers::Locked<layers::LazyTags<Memory>, layers::SpinLockOfThreads>;

}  // namespace tare::classics
