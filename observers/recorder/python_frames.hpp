// The call stacks of Python code, read from the frames of CPython 3.11 to 3.14 without changing or
// allocating anything. The layouts are those of its headers, internal/pycore_frame.h among them.

#pragma once

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "python_names.hpp"
#include "stacks.hpp"
#include "unwinding/walk.hpp"

// 0 in a program that has no CPython when it starts.
#define TARE_OF_PYTHON __attribute__((weak, visibility("default")))
extern "C" {
TARE_OF_PYTHON extern const unsigned long Py_Version;
TARE_OF_PYTHON extern const std::uint64_t _PyRuntime[];
TARE_OF_PYTHON extern const char PyCode_Type[];
TARE_OF_PYTHON void* PyGILState_GetThisThreadState();
TARE_OF_PYTHON void* _PyThreadState_UncheckedGet();
TARE_OF_PYTHON void* PyThreadState_GetUnchecked();
TARE_OF_PYTHON int PyCode_Addr2Line(void* code, int offset);
TARE_OF_PYTHON void* _PyEval_EvalFrameDefault(void* thread, void* frame, int exception);
}
#undef TARE_OF_PYTHON

namespace tare::recorder::python {

// Where CPython keeps things, in bytes from the start of each.
struct Layout {
  std::uint64_t thread_id, c_frame, current_frame;  // c_frame: 0 where a thread has none
  std::uint64_t code, previous, instruction, owner;
  std::uint64_t first_line, file, name, line_table, instructions;
  std::uint64_t version;     // a number that no other code has; 0 where there is none
  std::uint64_t characters;  // of an ASCII string
};

inline constexpr std::uint64_t kVersionOfCode = 92;  // since 3.12
inline constexpr Layout k311 = {.thread_id = 152,
                                .c_frame = 56,
                                .current_frame = 8,
                                .code = 32,
                                .previous = 48,
                                .instruction = 56,
                                .owner = 69,
                                .first_line = 72,
                                .file = 112,
                                .name = 128,
                                .line_table = 136,
                                .instructions = 184,
                                .version = 0,
                                .characters = 48};
inline constexpr Layout k312 = {.thread_id = 136,
                                .c_frame = 56,
                                .current_frame = 0,
                                .code = 0,
                                .previous = 8,
                                .instruction = 56,
                                .owner = 70,
                                .first_line = 68,
                                .file = 112,
                                .name = 128,
                                .line_table = 136,
                                .instructions = 192,
                                .version = kVersionOfCode,
                                .characters = 40};

// Since 3.13 it tells its own, as 64-bit words at the start of _PyRuntime: _Py_DebugOffsets.
inline bool ReadLayout(const std::uint64_t* words, unsigned long version, Layout& layout) {
  enum : std::size_t { kCookie, kVersion, kIsFreeThreaded };
  if (memcmp(&words[kCookie], "xdebugpy", sizeof *words) != 0 || words[kVersion] != version ||
      words[kIsFreeThreaded] != 0)
    return false;
  const bool is_313 = version >> 16 == 0x30D;
  const std::uint64_t* const thread = words + (is_313 ? 19 : 22);
  const std::uint64_t* const frame = words + (is_313 ? 28 : 31);
  const std::uint64_t* const code = words + (is_313 ? 34 : 39);
  const std::uint64_t* const string = words + (is_313 ? 67 : 77);
  layout = {.thread_id = thread[5],
            .c_frame = 0,
            .current_frame = thread[4],
            .code = frame[2],
            .previous = frame[1],
            .instruction = frame[3],
            .owner = frame[5],
            .first_line = code[5],
            .file = code[1],
            .name = code[3],
            .line_table = code[4],
            .instructions = code[9],
            .version = kVersionOfCode,
            .characters = string[3]};
  return true;
}

struct Interpreter {
  Layout layout;
  // The loop that runs Python code.
  std::uintptr_t loop_start, loop_end;
  pthread_t main_thread;
  void* (*running)();  // the state of the thread that holds the interpreter's lock
};

constinit inline Interpreter interpreter{};

// Whether it is one whose frames can be read. In the main thread, when the program starts.
inline bool FindInterpreter() {
  if (&Py_Version == nullptr || _PyRuntime == nullptr || PyCode_Type == nullptr ||
      PyGILState_GetThisThreadState == nullptr || PyCode_Addr2Line == nullptr ||
      _PyEval_EvalFrameDefault == nullptr)
    return false;
  interpreter.running = PyThreadState_GetUnchecked != nullptr ? PyThreadState_GetUnchecked
                                                              : _PyThreadState_UncheckedGet;
  if (interpreter.running == nullptr) return false;
  switch (Py_Version >> 16) {
    case 0x30B:
      interpreter.layout = k311;
      break;
    case 0x30C:
      interpreter.layout = k312;
      break;
    case 0x30D:
    case 0x30E:
      if (!ReadLayout(_PyRuntime, Py_Version, interpreter.layout)) return false;
      break;
    default:
      return false;
  }
  Dl_info file;
  const ElfW(Sym)* symbol = nullptr;
  void* const loop = reinterpret_cast<void*>(_PyEval_EvalFrameDefault);
  if (dladdr1(loop, &file, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)),
              RTLD_DL_SYMENT) == 0 ||
      symbol == nullptr)
    return false;
  interpreter.loop_start = reinterpret_cast<std::uintptr_t>(loop);
  interpreter.loop_end = interpreter.loop_start + symbol->st_size;
  interpreter.main_thread = pthread_self();
  return true;
}

// This thread's state, where nothing can take it away meanwhile; else 0. At its end the interpreter
// frees the states of threads that do not hold its lock, but not that of the main thread.
inline std::uintptr_t ThreadState() {
  void* const state = PyGILState_GetThisThreadState();
  const pthread_t self = pthread_self();
  if (state == nullptr ||
      (state != interpreter.running() && pthread_equal(self, interpreter.main_thread) == 0))
    return 0;
  const auto address = reinterpret_cast<std::uintptr_t>(state);
  return WordAt(address + interpreter.layout.thread_id) == self ? address : 0;
}

// What a thread knows of the Python code that it runs.
class Frames {
 public:
  // The node of `calls`, the innermost first, which the innermost frame of the thread's Python code
  // makes in C; 0 where there is no such code.
  std::uint32_t NodeAt(Stacks& stacks, std::uintptr_t state,
                       std::span<const std::uintptr_t> calls) {
    const std::uint32_t innermost = NodeOfCode(stacks, state);
    if (innermost == 0) return 0;
    std::uint64_t key = Mixed(stacks.generation.load(std::memory_order_relaxed), innermost);
    for (const std::uintptr_t call : calls) key = Mixed(key, call);
    Whole& whole = whole_[key % kWhole];
    if (whole.key == key && whole.node != 0) return whole.node;
    std::uint32_t node = innermost;
    for (std::size_t at = calls.size(); at > 0 && node != 0; --at)
      node = NodeOf(stacks, node, calls[at - 1]);
    whole = {key, node};
    return node;
  }

 private:
  static constexpr std::size_t kDeepest = 2048;
  static constexpr std::size_t kKeptOfDeeper = 64;
  static constexpr std::size_t kWhole = 1024;
  static constexpr std::uint8_t kOfC = 3;  // or more: an owner of frames that run no Python

  struct Place {
    std::uintptr_t frame, code, instruction;
    bool operator==(const Place&) const = default;
  };
  struct Known {
    Place place;
    std::uint64_t stamp;
    CodeKeys keys;
    std::uint32_t node;
  };
  struct Whole {
    std::uint64_t key;
    std::uint32_t node;
  };

  std::uint32_t NodeOfCode(Stacks& stacks, std::uintptr_t state) {
    std::size_t count = Collect(state);
    if (count == kDeepest) {
      count = kKeptOfDeeper;
      NoteCut();
    }
    // Code that is seen at every one of its events does not become other code unseen.
    if (setting.sample_bytes != 0) known_count_ = 0;
    std::uint32_t node = 0;
    for (std::size_t at = 0; at < count; ++at) {
      const Place& place = fresh_[count - 1 - at];
      const std::uint64_t stamp = StampOf(place.code);
      Known& known = known_[at];
      if (at < known_count_) {
        if (known.place == place && known.stamp == stamp) [[likely]] {
          node = known.node;
          continue;
        }
        const bool is_same_code = known.place.code == place.code && known.stamp == stamp;
        known_count_ = at;
        if (!is_same_code) known.keys = {};
      } else {
        known.keys = {};
      }
      if (known.keys.names == 0 && !ReadKeys(place.code, known.keys)) return 0;
      node = NodeOfLine(stacks, node, place, known.keys);
      if (node == 0) return 0;
      known.place = place;
      known.stamp = stamp;
      known.node = node;
      known_count_ = at + 1;
    }
    known_count_ = count;
    return node;
  }

  // Puts the frames of Python code into `fresh_`, the innermost first.
  std::size_t Collect(std::uintptr_t state) {
    const Layout& layout = interpreter.layout;
    std::uintptr_t holder = state;
    if (layout.c_frame != 0) holder = WordAt(state + layout.c_frame);
    std::size_t count = 0;
    for (std::uintptr_t frame = WordAt(holder + layout.current_frame);
         frame != 0 && count < kDeepest; frame = WordAt(frame + layout.previous))
      if (*reinterpret_cast<const std::uint8_t*>(frame + layout.owner) < kOfC)
        fresh_[count++] = {frame, CodeOf(frame), WordAt(frame + layout.instruction)};
    return count;
  }

  // Since 3.14 the lowest bit says who counts the reference.
  static std::uintptr_t CodeOf(std::uintptr_t frame) {
    return WordAt(frame + interpreter.layout.code) & ~std::uintptr_t{1};
  }

  // Changes with code that comes in the place of other code; before 3.12 with most of it.
  static std::uint64_t StampOf(std::uintptr_t code) {
    const Layout& layout = interpreter.layout;
    if (layout.version != 0) return NumberAt(code + layout.version);
    return WordAt(code + layout.name) ^ WordAt(code + layout.file) << 16 ^
           std::uint64_t{FirstLine(code)} << 40;
  }

  static std::uint32_t NumberAt(std::uintptr_t address) {
    return *reinterpret_cast<const std::uint32_t*>(address);
  }
  static std::uint32_t FirstLine(std::uintptr_t code) {
    return NumberAt(code + interpreter.layout.first_line);
  }

  // Not of code that is being freed, which a frame that ends may still have.
  static bool ReadKeys(std::uintptr_t code, CodeKeys& keys) {
    const Layout& layout = interpreter.layout;
    constexpr std::size_t kReferences = 0, kType = 8, kBytes = 16, kFirstByte = 32;
    if (NumberAt(code + kReferences) == 0 ||
        WordAt(code + kType) != reinterpret_cast<std::uintptr_t>(PyCode_Type))
      return false;
    const std::uintptr_t table = WordAt(code + layout.line_table);
    keys.names = Mixed(Mixed(NameAt(code).Key(), FileAt(code).Key()), FirstLine(code)) | 1;
    keys.lines = Mixed(keys.names, KeyOfBytes(table + kFirstByte, WordAt(table + kBytes)));
    return true;
  }

  static Text NameAt(std::uintptr_t code) {
    return {WordAt(code + interpreter.layout.name), interpreter.layout.characters};
  }
  static Text FileAt(std::uintptr_t code) {
    return {WordAt(code + interpreter.layout.file), interpreter.layout.characters};
  }

  static std::uint32_t NodeOfLine(Stacks& stacks, std::uint32_t outer, const Place& place,
                                  const CodeKeys& keys) {
    const auto offset =
        static_cast<std::int64_t>(place.instruction - place.code - interpreter.layout.instructions);
    const std::uint64_t key = Mixed(keys.lines, static_cast<std::uint64_t>(offset));
    std::uint32_t line_and_one = Find(stacks, kLinesOfPython, key);
    if (line_and_one == 0) {
      line_and_one = LineAt(place.code, offset) + 1;
      Remember(stacks, kLinesOfPython, key, line_and_one);
    }
    const std::uint64_t call = kPythonCall | Mixed(keys.names, line_and_one);
    if (const std::uint32_t node = Find(stacks, outer, call); node != 0) [[likely]]
      return node;
    if (!NotePythonCall(stacks, call, line_and_one - 1, NameAt(place.code), FileAt(place.code)))
      return 0;
    return NodeOf(stacks, outer, call);
  }

  static std::uint32_t LineAt(std::uintptr_t code, std::int64_t offset) {
    constexpr std::size_t kUnits = 16, kUnitBytes = 2;
    const std::int64_t bytes = static_cast<std::int64_t>(WordAt(code + kUnits) * kUnitBytes);
    const int line = offset >= 0 && offset < bytes
                         ? PyCode_Addr2Line(reinterpret_cast<void*>(code), static_cast<int>(offset))
                         : -1;
    return line > 0 ? static_cast<std::uint32_t>(line) : FirstLine(code);
  }

  std::size_t known_count_;
  Whole whole_[kWhole];
  Known known_[kDeepest];  // of the last event, the outermost first
  Place fresh_[kDeepest];
};

}  // namespace tare::recorder::python
