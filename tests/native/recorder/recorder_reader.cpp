// Rows of the events that a process has left, in the order in which tare-merge takes them:
// recorder_reader STEM writes STEM.read, and says what the header has.

#include <cstdio>
#include <cstring>
#include <string>

#include "merge/events.hpp"
#include "recorder_rows.hpp"

using namespace tare::recorder;

int main(int count, char** words) {
  if (count != 2) return 2;
  const std::string stem = words[1];
  const Input input(stem + ".events"), nodes(stem + ".stacks");
  Header header;
  memcpy(&header, input.data(), sizeof header);
  Output output(stem + ".read");
  Events events(input);
  Event event;
  while (events.Next(event)) {
    Row row{event.thread, event.kind,   event.moved,     event.address,
            event.bytes,  event.usable, event.alignment, 0};
    if (event.stack != 0) {
      Node node;
      memcpy(&node, nodes.data() + (event.stack - 1) * sizeof node, sizeof node);
      row.call = node.call;
    }
    output.Write(&row, sizeof row);
  }
  output.Close();
  std::printf(
      "{\"magic\": %d, \"loss\": %u, \"ending\": %u, \"forked\": %u, \"missed\": %lu, "
      "\"damaged\": %lu, \"threads\": %lu}\n",
      header.magic == kMagic, header.loss, header.ending, header.forked,
      static_cast<unsigned long>(header.missed), static_cast<unsigned long>(events.damaged),
      static_cast<unsigned long>(events.threads));
  return 0;
}
