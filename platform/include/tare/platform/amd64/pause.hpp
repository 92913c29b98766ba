#pragma once

namespace tare::platform {

inline void Pause() { __builtin_ia32_pause(); }

}  // namespace tare::platform
