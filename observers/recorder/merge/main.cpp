// tare-merge: puts in order what one process left, PID.SERIAL.events and the files beside it, as
// the tables of a raw recording, which tare/heap_traces/conversion.py makes a heap trace of.
//
//   tare-merge STEM     STEM is the path without ".events", which is removed at the end

#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "../../json_text.h"
#include "../switch.hpp"
#include "input.hpp"
#include "objects.hpp"
#include "sites.hpp"

namespace tare::recorder {
namespace {

Header ReadHeader(const std::filesystem::path& stem) {
  const Input input(stem.string() + ".events");
  Header header{};
  if (input.size() >= sizeof header) memcpy(&header, input.data(), sizeof header);
  if (header.magic != kMagic) return {};  // killed when it had just begun
  for (char* text : {header.program, header.inner_malloc, header.inner_free})
    text[kPathBytes - 1] = '\0';
  return header;
}

// The program after an exec has the same number, and a file of its own.
bool WasReplaced(const std::filesystem::path& stem) {
  const std::string name = stem.filename().string();
  const std::size_t dot = name.rfind('.');
  if (dot == std::string::npos) return false;
  const unsigned long serial = std::stoul(name.substr(dot + 1));
  const std::string next = name.substr(0, dot + 1) + std::to_string(serial + 1);
  return std::filesystem::exists(stem.parent_path() / (next + ".events")) ||
         std::filesystem::exists(stem.parent_path() / (next + ".json"));
}

// Whether the recorder came into a running process, and is to leave it.
bool IsLeft(const std::filesystem::path& stem) {
  const Input input((stem.parent_path() / "switch").string());
  std::uint64_t until = 0;
  if (input.size() >= sizeof(Switch))
    memcpy(&until, input.data() + offsetof(Switch, until), sizeof until);
  return until != 0;
}

std::string EndOf(const std::filesystem::path& stem, const Header& header) {
  if (header.ending == kExit) return "exit";
  if (header.ending == kLeft) return "left";
  if (WasReplaced(stem)) return "exec";
  // A child of one that the recorder came into, which has its end only when it allocates again.
  return IsLeft(stem) && kill(static_cast<pid_t>(header.pid), 0) == 0 ? "left" : "running";
}

// Sentences about what is missing.
std::vector<std::string> DamageOf(const Header& header, const Totals& totals) {
  std::vector<std::string> found;
  if (header.loss == kNoRoom)
    found.push_back("recording stopped where there was no room for its files");
  if (header.loss == kNoAddresses)
    found.push_back("threads could not be recorded for lack of memory");
  if (header.missed != 0)
    found.push_back(std::to_string(header.missed) +
                    " events are missing: a signal's handler interrupted the recorder itself");
  if (totals.damaged != 0)
    found.push_back(std::to_string(totals.damaged) + " blocks of events are damaged");
  return found;
}

void WriteDescription(const std::filesystem::path& stem, const Header& header, const Totals& totals,
                      const std::string& end) {
  const bool knows_all = header.forked == 0 && !totals.has_switch;
  Json text;
  text.Begin('{')
      .Member("format", "tare-recording")
      .Member("version", 1)
      .Member("observer", "recorder")
      .Member("parent", header.parent)
      .Member("program", header.program)
      .Member("end", end)
      .Member("forked", header.forked != 0)
      .Member("inner_malloc", header.inner_malloc)
      .Member("inner_free", header.inner_free)
      .Member("instructions", 0)
      .Member("nanoseconds", totals.nanoseconds)
      .Member("allocated_bytes", totals.allocated_bytes)
      .Member("objects", totals.objects)
      .Member("events", totals.events)
      .Member("max_live_objects", totals.max_live_objects)
      .Member("max_live_bytes", totals.max_live_bytes)
      .Member("threads", totals.threads)
      .Member("unknown_frees", knows_all ? totals.unknown_frees : 0)
      .Member("inherited_frees", knows_all ? 0 : totals.unknown_frees)
      .Member("reused", totals.reused)
      .Member("damaged_blocks", totals.damaged)
      .Member("missed", header.missed)
      .Member("early", header.early)
      .Member("stacks_cut", header.stacks_cut)
      .Name("damage")
      .Begin('[');
  for (const std::string& sentence : DamageOf(header, totals)) text.Value(sentence);
  text.End(']').End('}');
  Output file(stem.string() + ".json");
  file.Write(text.Text() + "\n");
  file.Close();
}

void Merge(const std::filesystem::path& stem) {
  const Header header = ReadHeader(stem);
  const std::string end = EndOf(stem, header);
  const Totals totals = WriteObjects(stem, header);
  if (header.has_stacks != 0) WriteSites(stem);
  WriteDescription(stem, header, totals, end);
  for (const char* ending : {".events", ".stacks", ".modules", ".python"})
    std::filesystem::remove(stem.string() + ending);
}

}  // namespace
}  // namespace tare::recorder

int main(int count, char** words) {
  if (count != 2) {
    std::cerr << "usage: tare-merge STEM\n";
    return 2;
  }
  try {
    tare::recorder::Merge(words[1]);
  } catch (const std::exception& error) {
    std::cerr << "tare-merge: " << error.what() << "\n";
    return 4;
  }
  return 0;
}
