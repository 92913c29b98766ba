// Limits of memory, at the start and as the program sets them.

#pragma once

namespace tare {

// From now on an allocation that fails first takes the quarantine back.
void GuardAllocations();

// GuardAllocations if the process has a limit of its address space or of its data.
void NoticeLimits();

}  // namespace tare
