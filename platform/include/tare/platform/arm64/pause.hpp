#pragma once

namespace tare::platform {

inline void Pause() { __asm__ volatile("yield"); }

}  // namespace tare::platform
