"""Names of places in programs, with functions that are inlined: beside addr2line, DHAT and
heaptrack, and where debug information lies apart."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from ctypes.util import find_library
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tare.base.text import writable
from tare.heap_traces.frames import frame_text, place_of, site_text
from tare.heap_traces.function_names import short_name
from tare.heap_traces.recording import Frame
from tare.heap_traces.symbols import unfold
from tare.heap_traces.trace import Trace, open_trace
from tare.memory_managers.manager import resolve
from tare.observers import asked, call_sites, memory_system, tracing
from tare.programs.program import Program
from tare.records.metrics import Status
from tare.records.runs import Limits
from tare.studies.count.sites import costs
from tests.native.recorder.recorder_programs import record
from tests.unit.importing.test_recordings import imported

IN_C = """\
#include <stdlib.h>
#define INLINE static inline __attribute__((always_inline))
#define APART __attribute__((noinline))
void *made_apart(size_t n);
INLINE char *touched(char *object) {
  *(volatile char *)object = 1;
  return object;
}
INLINE char *innermost(size_t n) {
  return touched(malloc(n));
}
INLINE char *middle(size_t n) {
  return touched(innermost(2 * n));
}
APART char *outer(size_t n) {
  char *one = middle(n + 1);
  return touched(one);
}
APART static char *descending(int depth) {
  char *below = depth > 0 ? descending(depth - 1) : outer(100);
  return touched(below);
}
APART void drop(char *object) {
  touched(object);
  free(object);
  *(volatile int *)&(int){1};
}
int main(void) {
  for (int i = 0; i < 10; ++i) {
    drop(outer(10));
    drop(descending(3));
    drop(middle(1000));
    drop(touched(made_apart(50)));
  }
  return 0;
}
"""
LIBRARY = """\
#include <stdlib.h>
static inline __attribute__((always_inline)) void *inside(size_t n) {
  char *object = calloc(1, n);
  *(volatile char *)object = 1;
  return object;
}
void *made_apart(size_t n) {
  char *object = inside(n);
  *(volatile char *)object = 2;
  return object;
}
"""
IN_CPP = """\
#include <map>
#include <string>
#include <vector>
#define APART __attribute__((noinline))
namespace {
struct Word {
  std::string text;
  int number;
};
template <class T>
struct Pool {
  std::vector<T> all;
  T &make(int n) {
    all.push_back(T{std::string(100 + n, 'x'), n});
    return all.back();
  }
};
struct Index {
  std::map<std::string, std::vector<int>> of;
  void put(const std::string &key) { of[key].push_back(1); }
};
template <int N>
inline __attribute__((always_inline)) int *numbers() {
  int *made = new int[N];
  *(volatile int *)made = N;
  return made;
}
APART int work(int rounds) {
  Pool<Word> pool;
  Index index;
  int sum = 0;
  const auto more = [&](int n) {
    index.put(std::string(50, char('a' + n % 20)));
    return n;
  };
  for (int i = 0; i < rounds; ++i) {
    sum += pool.make(i).number + more(i);
    int *made = numbers<100>();
    sum += *(volatile int *)made;
    delete[] made;
  }
  return sum;
}
}  // namespace
int main() {
  volatile int sum = work(40);
  return sum < 0;
}
"""


@dataclass(frozen=True)
class Kind:
    """A binary: its flags, whether it is C++, how it has its library, and whether addr2line names
    the right files of what is inlined (of DWARF 5 some versions do not)."""

    name: str
    flags: str
    library: str = "archive"
    is_cpp: bool = False

    @property
    def names_files(self) -> bool:
        return "dwarf-5" not in self.flags

    @property
    def has_lines(self) -> bool:
        return "-g0" not in self.flags


KINDS = [
    Kind("c-unoptimised", "-O0 -gdwarf-4"),
    Kind("c-optimised", "-O2 -gdwarf-4"),
    Kind("c-dwarf-5", "-O2 -gdwarf-5"),
    Kind("c-no-pie", "-O2 -gdwarf-4 -no-pie -fno-pie"),
    Kind("c-static", "-O2 -gdwarf-4 -static", library="static"),
    Kind("c-shared-library", "-O2 -gdwarf-4", library="shared"),
    Kind("c-no-debug", "-O2 -g0"),
    Kind("cpp-unoptimised", "-O0 -gdwarf-4", is_cpp=True),
    Kind("cpp-optimised", "-O2 -gdwarf-4", is_cpp=True),
    Kind("cpp-most-optimised", "-O3 -gdwarf-4", is_cpp=True),
    Kind("cpp-dwarf-5", "-O2 -gdwarf-5", is_cpp=True),
    Kind("cpp-no-pie", "-O2 -gdwarf-4 -no-pie -fno-pie", is_cpp=True),
    Kind("cpp-link-time", "-O2 -gdwarf-4 -flto", is_cpp=True),
    Kind("cpp-no-debug", "-O2 -g0", is_cpp=True),
]
RUN = [kind for kind in KINDS if kind.has_lines and kind.library != "static"]
Words = list[str | Path]
OWN_FILES = {"program.c", "program.cc", "apart.c"}


def built(folder: Path, kind: Kind) -> list[Path]:
    """The program, and its library where that is a file of its own."""
    flags = kind.flags.split()
    if kind.is_cpp:
        (folder / "program.cc").write_text(IN_CPP)
        subprocess.run(["c++", *flags, "-o", "program", "program.cc"], check=True, cwd=folder)
        return [folder / "program"]
    (folder / "program.c").write_text(IN_C)
    (folder / "apart.c").write_text(LIBRARY)
    if kind.library != "shared":
        words: Words = ["cc", *flags, "-o", "program", "program.c", "apart.c"]
        subprocess.run(words, check=True, cwd=folder)
        return [folder / "program"]
    shared = ["cc", *flags, "-fPIC", "-shared", "-o", "libapart.so", "apart.c"]
    subprocess.run(shared, check=True, cwd=folder)
    linked: Words = ["-L.", "-lapart", f"-Wl,-rpath,{folder}"]
    subprocess.run(["cc", *flags, "-o", "program", "program.c", *linked], check=True, cwd=folder)
    return [folder / "program", folder / "libapart.so"]


def plain(function: str) -> str:
    """The last part of a name, without arguments of templates: tools differ in the rest."""
    name, depth = "", 0
    for letter in short_name(function).replace("operator()", "call"):
        depth += letter == "<"
        name += letter if depth == 0 else ""
        depth -= letter == ">"
    return name.rpartition("::")[2].partition(".")[0]


def calls_in(path: Path) -> list[int]:
    """Addresses inside of call instructions, at most a few thousand."""
    words: Words = ["objdump", "--disassemble", "--no-show-raw-insn", path]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    found = [int(address, 16) + 1 for address in re.findall(r"^\s+([0-9a-f]+):\s+call", text, re.M)]
    return found[:: max(1, len(found) // 2000)]


def by_addr2line(path: Path, addresses: list[int]) -> list[list[tuple[str, str, int]]]:
    words: Words = [
        "addr2line",
        "--addresses",
        "--functions",
        "--inlines",
        "--demangle",
        "--exe",
        path,
    ]
    asked_for = "".join(f"{address:#x}\n" for address in addresses)
    text = subprocess.run(words, input=asked_for, check=True, capture_output=True, text=True).stdout
    found: list[list[tuple[str, str, int]]] = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("0x"):
            found.append([])
            continue
        file, _, number = next(lines).partition(" (")[0].rpartition(":")
        found[-1].append((line, Path(file).name, int(number) if number.isdigit() else 0))
    return found


Place = tuple[str, str, int]


def agree(kind: Kind, ours: list[Place], theirs: list[Place]) -> bool:
    """Of a function that no other file can call, addr2line knows no name where one is inlined into
    it, and takes that of the one around where it is the innermost."""
    if not ours[0][2]:
        # A function of the C library has several names.
        return kind.library == "static" or ours[0][0] == theirs[0][0]
    files = [file for _, file, _ in ours] == [file for _, file, _ in theirs]
    lines = [line for *_, line in ours] == [line for *_, line in theirs]
    names = [
        mine == other or other == "??" or (number == 0 and other == ours[-1][0])
        for number, ((mine, *_), (other, *_)) in enumerate(zip(ours, theirs, strict=False))
    ]
    return len(ours) == len(theirs) and lines and all(names) and (files or not kind.names_files)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_addr2line_agrees(kind: Kind, tmp_path: Path) -> None:
    compared = same = inlined = 0
    for path in built(tmp_path, kind):
        addresses = calls_in(path)
        ours = unfold([Frame(object=str(path), offset=address) for address in addresses])
        for frames, theirs in zip(ours, by_addr2line(path, addresses), strict=True):
            # Functions of no size, and parts that were moved away: addr2line has no or other names.
            if not frames[0].function or any(".cold" in name for name, *_ in theirs):
                continue
            places = [(plain(f.function), Path(f.file).name, f.line) for f in frames]
            expected = [(plain(name), file, line) for name, file, line in theirs]
            assert agree(kind, places, expected), (places, expected)
            compared += 1
            same += [name for name, *_ in places] == [name for name, *_ in expected]
            inlined += len(frames) > 1
    assert compared >= 8
    assert same > compared / 2
    assert (inlined > 0) == kind.has_lines


MOVED_CALLS = """\
#include <string>
#include <string_view>
unsigned long total;
static void add(std::string_view word) {
  for (char each : word) total = total * 31 + (unsigned char)each;
}
struct Held {
  std::string text;
  explicit Held(std::string_view word) : text(word) {}
  ~Held() { total += text.size(); }
};
static __attribute__((noinline)) unsigned long a_name_that_is_right_of_arguments(
    std::string_view one, std::string_view other) {
  return one.size() * 31 + other.size();
}
static unsigned long joined_and_so_named_at_length(std::string_view word) {
  return a_name_that_is_right_of_arguments(std::string(word),  // made c
                                           word);
}  // ends c
int main(int argc, char **) {
  std::string_view text = "a text that is longer than sixteen characters";
  auto one = [&](std::string_view word) {
    add(std::string(word));  // made a
    total ^= argc;
  };  // ends a
  auto two = [&](std::string_view word) {
    if (argc > 0) {
      total += 7;
      add(std::string(word));  // made b
    }
    total *= 3;
  };  // ends b
  for (int i = 0; i < 10; ++i) {
    one(text);
    two(text);
    add(std::string(text) + "x");  // made d
    total += joined_and_so_named_at_length(text);
    Held held(text);
    total += 1;
  }  // cleans up
  return total == 0;
}  // ends d
"""


def line_with(mark: str) -> int:
    (found,) = [n for n, line in enumerate(MOVED_CALLS.splitlines(), 1) if line.endswith(mark)]
    return found


@pytest.mark.parametrize("level", ["-O1", "-O2"])
@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_a_constructor_has_the_line_of_its_statement(
    standard: str, level: str, tmp_path: Path
) -> None:
    """g++ 12 gives it that of the closing brace of the function around, in C++20 here."""
    source, program = tmp_path / "moved.cc", tmp_path / "moved"
    source.write_text(MOVED_CALLS)
    words: Words = ["c++", f"-std={standard}", level, "-g", "-o", program, source]
    subprocess.run(words, check=True)
    addresses = calls_in(program)
    ours = unfold([Frame(object=str(program), offset=address) for address in addresses])
    moved = {(line_with(f"ends {name}"), line_with(f"made {name}")) for name in "abcd"}
    calls: set[tuple[str, int]] = set()
    differences: set[tuple[int, int]] = set()
    for frames, theirs in zip(ours, by_addr2line(program, addresses), strict=True):
        if not frames[0].line:  # addr2line has no names of code without lines
            continue
        assert len(frames) == len(theirs)
        differences |= {
            (other, frame.line)
            for frame, (_, _, other) in zip(frames, theirs, strict=True)
            if frame.line != other
        }
        calls |= {
            (plain(inner.function), outer.line)
            for inner, outer in pairwise(frames)
            if Path(outer.file).name == source.name
        }
    assert differences <= (moved if standard == "c++20" else set())
    ends = {line for line, _ in moved}
    assert {name for name, line in calls if line in ends and not name.startswith("~")} == set()
    assert {made for _, made in moved} <= {line for name, line in calls if name == "string"}
    assert ("~Held", line_with("cleans up")) in calls


@dataclass(frozen=True)
class Ran:
    kind: Kind
    program: Path
    trace: Trace


@pytest.fixture(scope="module", params=RUN, ids=lambda kind: kind.name)
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp(request.param.name)
    program = built(folder, request.param)[0]
    outcome, trace = record(folder / "trace", program)
    assert outcome.status is Status.OK
    return Ran(request.param, program, trace)


OwnStack = tuple[tuple[str, str, int], ...]


def own_part(frames: list[tuple[str, str, int]]) -> OwnStack:
    """Functions, files and lines of the frames in the program's own sources."""
    found = [(plain(name), Path(file).name, line) for name, file, line in frames]
    return tuple(place for place in found if place[1] in OWN_FILES)


def stacks_of(trace: Trace) -> set[OwnStack]:
    sites = trace.objects().collect()["site"].drop_nulls().unique().to_list()
    stacks = trace.stacks([(0, site) for site in sites])
    found = {own_part([(f["function"], f["file"], f["line"] or 0) for f in s]) for s in stacks}
    return found - {()}


def test_dhat_agrees(ran: Ran, tmp_path: Path) -> None:
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed (package valgrind)")
    out = tmp_path / "dhat.json"
    words: Words = [
        "valgrind",
        "--tool=dhat",
        "--num-callers=100",
        f"--dhat-out-file={out}",
        ran.program,
    ]
    subprocess.run(words, check=True, capture_output=True)
    found = json.loads(out.read_text())
    frame = re.compile(r"0x[0-9A-F]+: (.*) \(([^()]*):(\d+)\)")
    theirs = set()
    for point in found["pps"]:
        matches = [frame.fullmatch(found["ftbl"][number]) for number in point["fs"]]
        theirs.add(own_part([(m[1], m[2], int(m[3])) for m in matches if m is not None]))
    ours = stacks_of(ran.trace)
    if "-flto" in ran.kind.flags:  # Valgrind does not name what a unit has from another
        ours, theirs = ({lines_of(stack) for stack in found} for found in (ours, theirs))
    assert ours == theirs - {()}


def lines_of(stack: OwnStack) -> OwnStack:
    return tuple(("", file, line) for _, file, line in stack)


def test_heaptrack_agrees(ran: Ran, tmp_path: Path) -> None:
    if shutil.which("heaptrack") is None:
        pytest.skip("heaptrack is not installed (package heaptrack)")
    words: Words = ["heaptrack", "-o", "h", ran.program]
    subprocess.run(words, check=True, capture_output=True, cwd=tmp_path)
    (recording,) = tmp_path.glob("h.*")
    ours, theirs = stacks_of(ran.trace), stacks_of(imported(recording))
    # heaptrack looks up the instruction after a call, which may have come from elsewhere.
    assert len(ours ^ theirs) <= (2 if ran.kind.is_cpp else 0), (ours - theirs, theirs - ours)
    assert len(ours & theirs) > 3


def test_a_site_has_one_name_in_all_observers(tmp_path: Path) -> None:
    program = built(tmp_path, Kind("cpp", "-O2 -g", is_cpp=True))[0]
    _, recorded = record(tmp_path / "recorder", program)
    subject, glibc = Program("program", (str(program),)), resolve("glibc")
    target, uses = tmp_path / "uses.tare", asked.Asked(last_use=True)
    wanted = tracing.Wanted(target, uses)
    outcome = tracing.run_once(subject, glibc, Limits(), wanted=wanted)
    assert outcome.status is Status.OK, outcome.reason
    counted = call_sites.run_once(subject, glibc, Limits(), tmp_path)
    names = {"recorder": names_of(recorded), "instrument": names_of(open_trace(target))}
    births = ("malloc", "calloc", "realloc", "new")
    names["count"] = {
        (site_text(cost.frames[::-1]), place_of(cost.frames[::-1]))
        for cost in costs(counted)
        if cost.operation in births and cost.frames and not cost.is_rest
    }
    assert len(names["recorder"]) > 2
    assert names["recorder"] == names["instrument"] == names["count"]
    texts = {text for text, _ in names["recorder"]}
    assert "numbers<100> (program.cc:24)" in {t.split(" ←")[0] for t in texts}
    assert {t for t in texts if t.startswith("work::{lambda}::operator() (program.cc:33) ← work")}

    simulated = memory_system.run_once(subject, glibc, Limits(), tmp_path)
    sites = simulated.details["models"][0]["sites"]
    called = {frame_text(site) for site in sites if site["file"].endswith("program.cc")}
    assert "numbers<100> (program.cc:24)" in called


def names_of(trace: Trace) -> set[tuple[str, Any]]:
    sites = trace.objects().collect()["site"].drop_nulls().unique().to_list()
    stacks = trace.stacks([(0, site) for site in sites])
    return {(site_text(frames), place_of(frames)) for frames in stacks}


# ---- debug information that lies apart ----


@pytest.fixture
def apart(tmp_path: Path) -> tuple[Path, Path]:
    """A stripped program, and its debug information."""
    (tmp_path / "built").mkdir()
    kind = Kind("c", "-O2 -g -Wl,--build-id=sha1")
    (program,) = built(tmp_path / "built", kind)
    debug = tmp_path / "built" / "kept.debug"
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    expected = unfolded(program)
    assert any(len(frames) > 2 and frames[0].line for frames in expected)
    (tmp_path / "expected").write_text(repr(expected))
    subprocess.run(["strip", program], check=True)
    assert not any(frame.line for frames in unfolded(program) for frame in frames)
    return program, debug


def unfolded(program: Path) -> list[list[Frame]]:
    return unfold([Frame(object=str(program), offset=address) for address in calls_in(program)])


def is_found(program: Path) -> bool:
    expected = program.parent.parent / "expected"
    return repr(unfolded(program)) == expected.read_text()


def build_id(program: Path) -> str:
    words: Words = ["readelf", "--notes", program]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    match = re.search(r"Build ID: ([0-9a-f]+)", text)
    assert match is not None
    return match[1]


def test_a_debug_file_that_the_program_names(apart: tuple[Path, Path]) -> None:
    program, debug = apart
    subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", program], check=True)
    assert is_found(program)
    (program.parent / ".debug").mkdir()
    debug.rename(program.parent / ".debug" / debug.name)
    assert is_found(program)


def test_a_folder_of_build_ids(
    apart: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, debug = apart
    number = build_id(program)
    folder = tmp_path / "debug" / ".build-id" / number[:2]
    folder.mkdir(parents=True)
    debug.rename(folder / f"{number[2:]}.debug")
    assert not is_found(program)
    monkeypatch.setenv("TARE_DEBUG_PATH", str(tmp_path / "debug"))
    assert is_found(program)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "served").mkdir()
    handler = partial(_Quiet, directory=str(tmp_path / "served"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_address[1]}"
        serving.shutdown()
        thread.join()


def test_a_debuginfod_server(
    apart: tuple[Path, Path], server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if find_library("debuginfod") is None:
        pytest.skip("elfutils' client of debuginfod is missing (package libdebuginfod1)")
    program, debug = apart
    folder = tmp_path / "served" / "buildid" / build_id(program)
    folder.mkdir(parents=True)
    debug.rename(folder / "debuginfo")
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache"))
    monkeypatch.setenv("DEBUGINFOD_URLS", server)
    assert is_found(program)
    (folder / "debuginfo").unlink()
    assert is_found(program), "it was kept"


def test_without_the_tool_and_without_a_file_frames_are_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program,) = built(tmp_path, Kind("c", "-O2 -g"))
    os.mkfifo(tmp_path / "pipe")
    frames = [
        Frame(object=str(program), offset=calls_in(program)[0]),
        Frame(object=str(tmp_path / "pipe"), offset=5),
        Frame("of the instrument", "/gone", offset=5),
        Frame("made at run time"),
        Frame(object=str(tmp_path / "program.c"), offset=5),
    ]
    named = unfold(frames)
    assert named[1:] == [[frame] for frame in frames[1:]]
    monkeypatch.setattr("tare.heap_traces.symbols._TOOL", "bin/not-built")
    assert unfold(frames) == [[frame] for frame in frames]


@pytest.mark.parametrize("name", ["prö gräm", b"\xff\xfe".decode(errors="surrogateescape")])
def test_any_path_has_names(name: str, tmp_path: Path) -> None:
    (program,) = built(tmp_path, Kind("c", "-O2 -g"))
    addresses = calls_in(program)
    expected = [[frame.function for frame in frames] for frames in unfolded(program)]
    moved = writable(str(program.rename(tmp_path / name)))
    found = unfold([Frame(object=moved, offset=address) for address in addresses])
    assert [[frame.function for frame in frames] for frames in found] == expected
    assert "innermost" in {function for functions in expected for function in functions}
