#include "sites.hpp"

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <system_error>
#include <tuple>

#include "../../json_text.h"
#include "../../tables/writer.hpp"
#include "../format.hpp"
#include "input.hpp"

namespace tare::recorder {
namespace {

// An object in the address space of the process, from some node on.
struct Object {
  std::uint64_t after;  // the number of the node before
  std::uint64_t start, end;
  std::uint64_t bias;  // from addresses in the file
  std::string path;
};

// The dynamic linker may know a file by the name of a link, the kernel and other observers do not.
std::string RealPath(const std::string& path) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  return error ? path : real.string();
}

std::vector<Object> ReadObjects(const std::string& path) {
  constexpr std::size_t kLongest = 1 << 16;
  std::vector<Object> objects;
  std::ifstream file(path);
  Object object;
  for (std::size_t length = 0;
       file >> object.after >> object.start >> object.end >> object.bias >> length &&
       file.get() == ' ' && length < kLongest;) {
    object.path.resize(length);
    if (!file.read(object.path.data(), static_cast<std::streamsize>(length))) break;
    object.path = RealPath(object.path);
    if (object.start < object.end) objects.push_back(object);
  }
  return objects;
}

// The objects that are there at a node; the nodes come in their order.
class AddressSpace {
 public:
  explicit AddressSpace(std::vector<Object> objects) : objects_(std::move(objects)) {}

  const Object* At(std::uint64_t node, std::uint64_t address) {
    for (; next_ < objects_.size() && objects_[next_].after < node; ++next_) Place(objects_[next_]);
    const auto above = here_.upper_bound(address);
    if (above == here_.begin()) return nullptr;
    const Object* const object = std::prev(above)->second;
    return address < object->end ? object : nullptr;
  }

 private:
  void Place(const Object& object) {
    auto at = here_.lower_bound(object.start);
    if (at != here_.begin() && std::prev(at)->second->end > object.start) --at;
    while (at != here_.end() && at->second->start < object.end) at = here_.erase(at);
    here_[object.start] = &object;
  }

  const std::vector<Object> objects_;
  std::size_t next_ = 0;
  std::map<std::uint64_t, const Object*> here_;  // by start
};

struct PythonLine {
  std::string function, file;
  std::uint64_t line;
  auto operator<=>(const PythonLine&) const = default;
};

bool ReadText(std::ifstream& file, std::string& text) {
  constexpr std::size_t kLongest = 1 << 16;
  std::size_t length = 0;
  if (!(file >> length) || file.get() != ' ' || length > kLongest) return false;
  text.resize(length);
  return static_cast<bool>(file.read(text.data(), static_cast<std::streamsize>(length)));
}

// By the calls that they make.
std::map<std::uint64_t, PythonLine> ReadPython(const std::string& path) {
  std::map<std::uint64_t, PythonLine> lines;
  std::ifstream file(path);
  std::uint64_t call = 0;
  for (PythonLine line;
       file >> call >> line.line && ReadText(file, line.function) && ReadText(file, line.file);)
    lines.try_emplace(call, line);
  return lines;
}

// Each place once, as a line of the file of frames; they count from 0.
class Frames {
 public:
  explicit Frames(const std::filesystem::path& stem) : file_(stem.string() + ".frames") {}

  std::uint64_t NumberOf(const Object* object, std::uint64_t address) {
    if (object == nullptr) return kUnknown;
    const std::uint64_t offset = address - object->bias;
    const auto [at, is_new] = native_.try_emplace({object->path, offset}, count_);
    if (is_new) Write(Json().Begin('{').Member("object", object->path).Member("offset", offset));
    return at->second;
  }
  std::uint64_t NumberOf(const PythonLine& line) {
    const auto [at, is_new] = python_.try_emplace(line, count_);
    if (is_new)
      Write(Json()
                .Begin('{')
                .Member("function", line.function)
                .Member("file", line.file)
                .Member("line", line.line));
    return at->second;
  }
  void Finish() { file_.Close(); }

  static constexpr std::uint64_t kUnknown = 0xffffffff;

 private:
  void Write(Json& line) {
    file_.Write(line.End('}').Text() + "\n");
    ++count_;
  }

  Output file_;
  std::uint64_t count_ = 0;
  std::map<std::pair<std::string, std::uint64_t>, std::uint64_t> native_;
  std::map<PythonLine, std::uint64_t> python_;
};

}  // namespace

void WriteSites(const std::filesystem::path& stem) {
  const Input input(stem.string() + ".stacks");
  AddressSpace space(ReadObjects(stem.string() + ".modules"));
  TableWriter<3> sites(stem.string() + ".sites", "sites", "caller frame address");
  const std::map<std::uint64_t, PythonLine> python = ReadPython(stem.string() + ".python");
  Frames frames(stem);
  for (std::uint64_t number = 1; number * sizeof(Node) <= input.size(); ++number) {
    Node node;
    memcpy(&node, input.data() + (number - 1) * sizeof node, sizeof node);
    // The rest of the last part is zeros; a caller comes before whom it calls.
    if (node.call == 0 || node.caller >= number) break;
    if ((node.call & kPythonCall) != 0) {
      const auto line = python.find(node.call);
      sites.Add({node.caller,
                 line != python.end() ? frames.NumberOf(line->second) : Frames::kUnknown, 0});
      continue;
    }
    const std::uint64_t call = node.call - 1;
    sites.Add({node.caller, frames.NumberOf(space.At(number, call), call), call});
  }
  sites.Finish();
  frames.Finish();
}

}  // namespace tare::recorder
