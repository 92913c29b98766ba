// Which pages of the process are resident, at moments that are chosen while it runs: at each new
// peak, and evenly over what it allocates.

#pragma once

#include <cstddef>
#include <cstdint>

namespace tare::recorder::snapshot {

// Whether snapshots are taken at all: the environment names a folder for them. All but Prepare may
// be called only if they are.
constinit inline bool on = false;

// Before the allocator's first operation, and again once the environment is known.
void Prepare();

// The process has its files, FOLDER/PID.SERIAL being the `stem` of their names; again in the child
// of a fork.
void Begin(const char* stem, std::uint64_t origin, bool forked);

// To be called when as many bytes as the last call said have been allocated or freed, or earlier;
// `bytes` is how many have been since then. At a birth after its event, at a death before it.
enum class Occasion { kUsual, kRiseEnds, kEnd };
std::int64_t Look(std::int64_t bytes, Occasion occasion);

void End();

}  // namespace tare::recorder::snapshot
