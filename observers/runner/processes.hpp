// What the kernel tells of processes, in /proc.

#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tare::runner {

// A small file of /proc or the like; empty when it has gone.
std::string read_small(const std::string& path);

std::vector<pid_t> descendants();

// These are 0 and empty when the process has gone, and an executable where an emulator runs all.
pid_t parent_of(pid_t pid);
std::string executable_of(pid_t pid);

// What tells this image of a program from those before it in the same process: where the kernel
// put its random bytes, as the probe reads it from its auxiliary vector. 0: not known.
std::uint64_t image_of(pid_t pid);

// /proc/PID/status.
std::string status_of(pid_t pid);

std::uint64_t resident_bytes(pid_t pid);

// Pages shared with other processes are divided among them, so that a tree's sum counts them once.
std::uint64_t proportional_bytes(pid_t pid);

// Between a vfork and its exec a child runs in its parent's memory, which both report as theirs,
// and so does what the instrument simulates in. Neither is a program of its own.
bool runs_in_memory_of_parent(pid_t pid);

// Of some processors, or all, since the machine was started: the time in which they worked, and
// that in which they would have, had the host not given it to others. Both are -1 where that is
// unknown.
struct ProcessorTime {
  std::int64_t busy_milliseconds = -1;
  std::int64_t stolen_milliseconds = -1;
};
ProcessorTime processor_time(const std::optional<cpu_set_t>& processors);

// Of the whole machine, since it was started.
std::int64_t kernel_oom_kills();

}  // namespace tare::runner
