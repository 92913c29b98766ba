"""Components of compiled Java: instructions labelled by hand, and what a JVM tells of its code."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tare.base.errors import TareError
from tare.records.components import OTHER
from tare.studies.breakdown import observe, perf_map
from tare.studies.breakdown.classifier import Classifier
from tare.studies.breakdown.code import Instruction, decode, decode_all
from tare.studies.breakdown.descriptor import (
    Descriptor,
    PatternTable,
    read_descriptor,
    shipped,
)
from tare.studies.breakdown.image import Image
from tests.support import ROOT

HOTSPOT = shipped()["hotspot-17"]
CORPUS = ROOT / "tests" / "unit" / "studies" / "labelled" / "hotspot-17.txt"
ROW = re.compile(r"(?P<address>[0-9a-f]+) (?P<bytes>[0-9a-f]+) +(?P<label>[a-z_]+) +(?P<text>.+)")
CALLED = re.compile(r"(?:call|jmp) +(?P<address>[0-9a-f]+) <(?P<name>.+)>")
JAVA = shutil.which("java")
LIBRARY = Path(JAVA or "").resolve().parent.parent / "lib" / "server" / "libjvm.so"
needs_java = pytest.mark.skipif(
    shutil.which("javac") is None or not LIBRARY.is_file(),
    reason="Debian's package default-jdk-headless is missing",
)

# ---- instructions that were labelled by hand ----


class Method:
    """Instructions with their labels, and the names of what they call."""

    def __init__(self) -> None:
        self.names: dict[int, list[str]] = {}
        self.rows: list[tuple[Instruction, str]] = []

    def compared(self) -> Iterator[tuple[str, str]]:
        """Label and answer of each instruction."""
        marks = Classifier(HOTSPOT, self.names).classify([one for one, _ in self.rows]).marks
        for one, label in self.rows:
            mark = marks.get((one.address, one.length))
            yield label, mark.component if mark is not None else OTHER


def corpus() -> dict[str, list[Method]]:
    parts: dict[str, list[Method]] = {}
    for line in CORPUS.read_text(encoding="utf-8").splitlines():
        if line.startswith("## part "):
            methods = parts.setdefault(line.removeprefix("## part "), [])
        elif line.startswith("# "):
            methods.append(Method())
        elif (row := ROW.fullmatch(line)) is not None:
            one = decode(int(row["address"], 16), bytes.fromhex(row["bytes"]))
            methods[-1].rows.append((one, row["label"]))
            if (called := CALLED.match(row["text"])) is not None:
                methods[-1].names[int(called["address"], 16)] = [called["name"]]
        else:
            assert not line or line.startswith("##"), line
    return parts


@pytest.mark.parametrize(("part", "least"), [("first", 700), ("second", 1400), ("third", 400)])
def test_instructions_labelled_by_hand(part: str, least: int) -> None:
    found = Counter(pair for method in corpus()[part] for pair in method.compared())
    right = sum(number for (label, answer), number in found.items() if label == answer)
    assert found.total() >= least
    assert right / found.total() >= 0.99


def test_each_component_is_recognised() -> None:
    found = Counter(
        pair for methods in corpus().values() for method in methods for pair in method.compared()
    )
    labels = {label for label, _ in found}
    assert labels >= {"allocation", "gc_check", "record_tag", "zeroing", "poll", "stack_check",
                      "write_barrier"}  # fmt: skip
    for label in labels:
        right = found[label, label]
        labelled = sum(number for (one, _), number in found.items() if one == label)
        answered = sum(number for (_, one), number in found.items() if one == label)
        assert right >= 0.95 * labelled, label
        assert right >= 0.95 * answered, label


def descriptor_of_the_jvm(image: Image) -> Descriptor:
    """The only one that knows the installed JVM."""
    (how,) = [how for how in shipped().values() if how.launchers and how.recognises(image)]
    return how


@needs_java
def test_the_functions_of_phases_are_there() -> None:
    image = Image(LIBRARY)
    how = descriptor_of_the_jvm(image)
    missing = {name for phase in how.phases for name in phase.functions} - set(image.symbols)
    assert not missing


def test_the_instrument_can_follow_all_phases() -> None:
    """A script may start a program of any runtime."""
    assert len({event.name for event in observe._events(tuple(shipped().values()), None)}) <= 64


# ---- descriptors that build on another ----

BASE = """
schema = 1
name = "base"
title = "Base"
recognise = ["f"]
launchers = ["start"]
words = { place = 8, helper = "@help" }
[[pattern]]
code = ["mov _, [r15 + {place}] -> poll"]
[[phase]]
name = "young"
component = "roots"
functions = ["old", "kept"]
"""
BUILT = """
schema = 1
name = "built"
title = "Built"
recognise = ["g"]
like = "base"
gone = ["old"]
words = { place = 16 }
[[pattern]]
code = ["call {helper} -> allocation"]
[[phase]]
name = "young"
component = "roots"
functions = ["new"]
[[phase]]
name = "scan"
component = "copy"
functions = ["scan"]
"""


def test_a_descriptor_builds_on_another(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(BASE)
    (tmp_path / "built.toml").write_text(BUILT)
    built = read_descriptor(tmp_path / "built.toml")
    assert (built.name, built.recognise, built.launchers) == ("built", ("g",), ("start",))
    assert [table.code for table in built.tables] == [
        ("call @help -> allocation",),
        ("mov _, [r15 + 16] -> poll",),
    ]
    functions = {phase.name: phase.functions for phase in built.phases}
    assert functions == {"young": ("kept", "new"), "scan": ("scan",)}
    base = read_descriptor(tmp_path / "base.toml")
    assert built.family == base.family == "base"
    assert base.tables[0].code == ("mov _, [r15 + 8] -> poll",)
    assert base.phases[0].functions == ("old", "kept")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("base", "elsewhere"), "cannot be read"),
        (('"base"', '"built"'), "built is like itself"),
        (("{helper}", "{nobody}"), "there is no word nobody"),
    ],
)
def test_what_it_builds_on_must_be_there(
    change: tuple[str, str], complaint: str, tmp_path: Path
) -> None:
    (tmp_path / "base.toml").write_text(BASE)
    (tmp_path / "built.toml").write_text(BUILT.replace(*change))
    with pytest.raises(TareError) as caught:
        read_descriptor(tmp_path / "built.toml")
    assert complaint in caught.value.message


def test_lines_of_a_pattern_are_found_wherever_they_fit() -> None:
    """The nearest instruction for a line need not be the right one."""
    lines = ["mov %a, rbp -> poll", "mov %b, _ -> poll", "xor %b, %a -> poll"]
    pattern = PatternTable(code=tuple(lines), gap=2).pattern()
    code = bytes.fromhex("4989ea 4989d8 4989db 4d31d3")  # mov r10, rbp; mov r8, rbx; mov r11, rbx
    marks = pattern.match(list(decode_all(0x1000, code)), 0, {}, allocated=False)
    assert marks is not None
    assert [place for place, _ in marks] == [0, 2, 3]


# ---- code that a process tells of ----


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(perf_map, "_FOLDER", tmp_path)
    path = perf_map.path_of(1234)
    path.write_text(
        "0x0000000000001000 0x0000000000000040 Interpreter\n"
        "2000 10 int Life.count(java.util.List, int)\n"
        "nonsense\n"
        "3000 0 empty\n"
        "4000 10\n"
    )
    return path


def test_code_that_was_told_of(told: Path) -> None:
    pieces = perf_map.take(1234, since=0)
    assert pieces.at(0xFFF) is None
    for address in (0x1000, 0x103F):
        piece = pieces.at(address)
        assert piece is not None
        assert piece.name == "Interpreter"
    assert pieces.at(0x1040) is None
    assert pieces.names[0x2000] == ["int Life.count(java.util.List, int)"]
    assert pieces.at(0x3000) is pieces.at(0x4000) is None
    assert not told.exists()


def test_a_file_that_was_there_before_is_not_believed(told: Path) -> None:
    os.utime(told, (1, 1))
    assert perf_map.take(1234, since=2).at(0x1000) is None
    assert told.exists()


def test_a_link_is_not_followed(told: Path) -> None:
    told.rename(told.with_name("elsewhere"))
    told.symlink_to(told.with_name("elsewhere"))
    assert perf_map.take(1234, since=0).at(0x1000) is None
    assert told.is_symlink()


def test_code_of_the_language_by_its_name() -> None:
    assert HOTSPOT.made_code is not None
    fits = HOTSPOT.made_code.names.fullmatch
    assert fits("int java.lang.String.hashCode()")
    assert fits("java.lang.Object[] Life.step(int, java.util.List)")
    for name in ("Interpreter", "StubRoutines (1)", "I2C/C2I adapters", "_new_instance_Java",
                 "new_instance Runtime1 stub", "vtable chunks"):  # fmt: skip
        assert not fits(name)


BAD_DESCRIPTORS = {
    '[made_code]\nnames = "("': "made_code.names",
    "[made_code]": "made_code.names: is missing",
    '[[phase]]\nname = "a"\ncomponent = "copy"\nfunctions = []\ntitle = "A"': "title: only a phase",
    '[buffer]\npointer = "[r15"\nlimit = "[r15]"\ncomponent = "allocation"\nzeroing = "zeroing"\n'
    "zero = []\nheader = { first = 0, class_at = 8, length_at = 12, elements_at = 16, "
    'component = "record_tag" }': "has no closing ]",
}


@pytest.mark.parametrize("wrong", BAD_DESCRIPTORS)
def test_a_descriptor_that_makes_no_sense_is_refused(wrong: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text('schema = 1\nname = "x"\ntitle = "X"\nrecognise = []\n' + wrong)
    with pytest.raises(TareError) as caught:
        read_descriptor(path)
    assert BAD_DESCRIPTORS[wrong] in caught.value.message


def test_what_compilers_do_is_no_component() -> None:
    assert HOTSPOT.component_of_phases(["compilers", "allocation"]) is None
    assert HOTSPOT.title_of_phases(["allocation", "compilers"]) == "the compilers C1 and C2"
    assert HOTSPOT.component_of_phases(["allocation"]) == "allocation"
    assert HOTSPOT.title_of_phases(["allocation"]) == ""
    assert HOTSPOT.component_of_phases(["entry", "young", "scan", "promotion"]) == "promotion"
    assert HOTSPOT.component_of_phases(["entry", "scan"]) == "gc_entry"
