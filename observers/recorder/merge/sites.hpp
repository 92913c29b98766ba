// From the stacks of a process to its call sites, by object and offset.

#pragma once

#include <filesystem>

namespace tare::recorder {

// Writes the table sites, and the file frames, of `stem`.stacks and `stem`.modules.
void WriteSites(const std::filesystem::path& stem);

}  // namespace tare::recorder
