// All layers.

#pragma once

// IWYU pragma: begin_exports
#include "tare/layers/boundary_tags.hpp"
#include "tare/layers/concepts.hpp"
#include "tare/layers/counted.hpp"
#include "tare/layers/fits.hpp"
#include "tare/layers/free_list.hpp"
#include "tare/layers/locked.hpp"
#include "tare/layers/nested.hpp"
#include "tare/layers/obstack.hpp"
#include "tare/layers/pages.hpp"
#include "tare/layers/quick_lists.hpp"
#include "tare/layers/region.hpp"
#include "tare/layers/size_classes.hpp"
#include "tare/layers/size_headers.hpp"
#include "tare/layers/spin_lock.hpp"
#include "tare/layers/stack_like.hpp"
#include "tare/layers/thread_cache.hpp"
#include "tare/layers/traced.hpp"
// IWYU pragma: end_exports
