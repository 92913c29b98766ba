#include "report.hpp"

#include <sys/wait.h>

#include <algorithm>

#include "../json_text.h"

namespace tare::runner {

void Report::add(const rusage& usage_of_process) {
  const auto microseconds = [](const timeval& time) {
    return static_cast<std::int64_t>(time.tv_sec) * 1'000'000 + time.tv_usec;
  };
  usage.user_microseconds += microseconds(usage_of_process.ru_utime);
  usage.system_microseconds += microseconds(usage_of_process.ru_stime);
  usage.minor_faults += usage_of_process.ru_minflt;
  usage.major_faults += usage_of_process.ru_majflt;
  usage.context_switches += usage_of_process.ru_nvcsw + usage_of_process.ru_nivcsw;
  usage.largest_process_bytes =
      std::max<std::int64_t>(usage.largest_process_bytes, usage_of_process.ru_maxrss * 1024);
}

std::string Report::text() const {
  const char* const own_end = WIFSIGNALED(status) ? "signaled" : "exited";
  Json json;
  json.Begin('{')
      .Member("end", end != nullptr ? end : own_end)
      .Member("code", WIFEXITED(status) ? WEXITSTATUS(status) : 0)
      .Member("signal", WIFSIGNALED(status) ? WTERMSIG(status) : 0)
      .Member("pid", pid)
      .Member("wall_nanoseconds", wall)
      .Member("user_microseconds", usage.user_microseconds)
      .Member("system_microseconds", usage.system_microseconds)
      .Member("minor_faults", usage.minor_faults)
      .Member("major_faults", usage.major_faults)
      .Member("context_switches", usage.context_switches)
      .Member("largest_process_bytes", usage.largest_process_bytes)
      .Member("tree_bytes", tree_bytes)
      .Member("samples", samples)
      .Member("left_behind", left_behind.size())
      .Member("oom_kills", oom_kills)
      .Member("group_kills", group.kills)
      .Member("group_peak_bytes", group.peak_bytes)
      .Member("busy_milliseconds", processors.busy_milliseconds)
      .Member("stolen_milliseconds", processors.stolen_milliseconds)
      .Member("setting_broken", setting_broken);
  json.Name("pids").Begin('[');
  for (const pid_t process : seen) json.Value(process);
  json.End(']').Name("programs").Begin('[');
  for (const auto& [process, parent, path, image] : programs)
    json.Begin('[').Value(process).Value(parent).Value(path).Value(image).End(']');
  json.End(']').Name("counters").Begin('{');
  for (const auto& [name, events] : counts) json.Member(name, events);
  json.End('}');
  if (failure.number != 0)
    json.Member("error_what", failure.what)
        .Member("error_subject", failure.subject)
        .Member("error_number", failure.number);
  return json.End('}').Text();
}

}  // namespace tare::runner
