// The lock of the layers, for what is preloaded.

#pragma once

#include "../layers/include/tare/layers/spin_lock.hpp"

namespace tare {

using layers::SpinLock;

}  // namespace tare
