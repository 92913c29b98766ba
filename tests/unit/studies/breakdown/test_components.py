"""Descriptors of runtimes, and instructions that were labelled by hand."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tare.base.errors import TareError
from tare.records.components import COMPONENTS, MALLOC, OTHER, Certainty
from tare.studies.breakdown import published
from tare.studies.breakdown.classifier import Classification, Classifier
from tare.studies.breakdown.code import Instruction, decode, decode_all
from tare.studies.breakdown.descriptor import Descriptor, read_descriptor, shipped
from tare.studies.breakdown.patterns import read_line
from tests.support import ROOT

OCAML = shipped()["ocaml-4"]
START = 0x1000


def classify(
    code: bytes, names: dict[int, list[str]] | None = None, runtime: Descriptor = OCAML
) -> Classification:
    return Classifier(runtime, names or {}).classify(decode_all(START, code))


def key(one: Instruction) -> tuple[int, int]:
    return one.address, one.length


def labels(
    code: bytes, names: dict[int, list[str]] | None = None, runtime: Descriptor = OCAML
) -> list[str]:
    """The component of each instruction; with ? or ~ where it is not sure."""
    marks = classify(code, names, runtime).marks
    signs = {Certainty.SURE: "", Certainty.AMBIGUOUS: "?", Certainty.FOLDED: "~"}
    found = []
    for one in decode_all(START, code):
        mark = marks.get(key(one))
        found.append(OTHER if mark is None else mark.component + signs[mark.certainty])
    return found


# ---- patterns and descriptors ----


@pytest.mark.parametrize(
    "line",
    [
        "",
        "-> allocation",
        "add rax, 1 -> taxes",
        "add rax, 1 -> ",
        "add rax, $1 -> allocation",
        "mov [rax, 1 -> allocation",
        "lea rax, [rbx + rcx] -> allocation",
    ],
)
def test_a_line_that_makes_no_sense_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_line(line)


BAD_DESCRIPTORS = {
    "schema = 2": "schema: must be 1, not 2",
    "nonsense = 1": "nonsense: unknown key",
    '[[pattern]]\ncode = ["ret"]': "charges no instruction",
    '[[pattern]]\ncode = ["ret -> allocation"]\nwhen = 1': "when: unknown key",
    '[[phase]]\nname = "a"\ncomponent = "b"\nfunctions = []': "component, not 'b'",
    '[[phase]]\nname = "a"\ncomponent = "copy"\nfunctions = "f"': "must be a list of strings",
    '[[phase]]\nname = "a"\ncomponent = "copy"\nfunctions = ["f"]\ninside = "z"': "inside z",
    '[code]\nprefix = ""\nbegin = ["a"]\nend = []': "same number of names",
    '[allocation]\ndirection = "left"\nheader = {}': "one of down, up, not 'left'",
    '[symbols]\nsignatures = "none"\nsize = 1': "size: unknown key",
    '[[routine]]\ncomponent = "rent"\nfunctions = []': "component, not 'rent'",
    "[": "is not a descriptor",
}


@pytest.mark.parametrize("wrong", BAD_DESCRIPTORS)
def test_a_descriptor_that_makes_no_sense_is_refused(wrong: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    head = 'schema = 1\nname = "x"\ntitle = "X"\nrecognise = []\n'
    path.write_text(wrong if wrong.startswith("schema") else head + wrong)
    if wrong.startswith("schema"):
        path.write_text(f"{wrong}\n" + head.partition("\n")[2])
    with pytest.raises(TareError) as caught:
        read_descriptor(path)
    assert str(path) in caught.value.message
    assert BAD_DESCRIPTORS[wrong] in caught.value.message


def test_what_is_shipped() -> None:
    assert MALLOC in shipped()
    for name, descriptor in shipped().items():
        assert descriptor.name == name
        assert bool(descriptor.recognise) is (name != MALLOC)


def test_phases_nest_by_priority() -> None:
    def component(*phases: str) -> str | None:
        return OCAML.component_of_phases(phases)

    assert component("minor", "entry") == "roots"
    assert component("minor", "scan") == "copy"
    assert component("promotion", "scan", "minor") == "promotion"
    assert component("scan") is None
    assert component("compaction", "major") == "moveback"
    assert component("allocation", "entry", "major") == "major"
    assert component("callbacks", "entry") is None
    assert component("callbacks", "entry", "minor") == "roots"
    assert component() is None


def test_groups_of_the_figure_have_each_component_once() -> None:
    grouped: Sequence[str] = [name for parts in published.GROUPS.values() for name in parts]
    assert sorted([*grouped, OTHER]) == sorted(COMPONENTS)


def test_published_rows_are_of_components() -> None:
    rows = published.published()
    assert len(rows) == 8
    for row in rows.values():
        assert set(row) < set(COMPONENTS)
    # 19% to 46% of the time, as the paper says of all its programs; its table is rounded.
    sums = [sum(row.values()) for row in rows.values()]
    assert min(sums) > 0.18
    assert max(sums) < 0.47


# ---- instructions that were labelled by hand ----

CORPORA = ROOT / "tests" / "unit" / "studies" / "labelled"
ROW = re.compile(r"(?P<address>[0-9a-f]+) (?P<bytes>[0-9a-f]+) +(?P<label>[a-z_~]+) +(?P<text>.+)")
NAMED = re.compile(r".*?(?P<address>[0-9a-f]{4,})\b.* <(?P<name>\w+)>")


@dataclass
class Labelled:
    """A function: ``names`` of what it refers to, info ``tables`` by the end of each, and its
    instructions with their labels."""

    names: dict[int, list[str]] = field(default_factory=dict)
    tables: dict[int, bytes] = field(default_factory=dict)
    rows: list[tuple[Instruction, str]] = field(default_factory=list)

    def bytes_at(self, address: int, count: int) -> bytes:
        return self.tables.get(address + count, b"")


def corpus(runtime: str) -> dict[str, list[Labelled]]:
    """The functions by part."""
    parts: dict[str, list[Labelled]] = {}
    for line in (CORPORA / f"{runtime}.txt").read_text().splitlines():
        if line.startswith("## part "):
            functions = parts.setdefault(line.removeprefix("## part "), [])
        elif line.startswith("# "):
            functions.append(Labelled())
        elif line.startswith("@ "):
            address, *table = line.split()[1:]
            functions[-1].tables[int(address, 16)] = struct.pack("<IIII", *map(int, table), 0)
        elif (row := ROW.fullmatch(line)) is not None:
            one = decode(int(row["address"], 16), bytes.fromhex(row["bytes"]))
            functions[-1].rows.append((one, row["label"]))
            if (named := NAMED.match(row["text"])) is not None:
                functions[-1].names[int(named["address"], 16)] = [named["name"]]
        else:
            assert not line or line.startswith("##"), line
    return parts


def compared(runtime: str, functions: list[Labelled]) -> Counter[tuple[str, str]]:
    """How often which label met which answer."""
    found: Counter[tuple[str, str]] = Counter()
    for function in functions:
        classifier = Classifier(shipped()[runtime], function.names, function.bytes_at)
        marks = classifier.classify([one for one, _ in function.rows]).marks
        for one, label in function.rows:
            mark = marks.get(key(one))
            sure = mark is None or mark.certainty is Certainty.SURE
            found[label, (mark.component if mark else OTHER) + ("" if sure else "~")] += 1
    return found


@pytest.mark.parametrize(
    ("runtime", "part", "least"),
    [
        ("ocaml-4", "first", 900),
        ("ocaml-4", "second", 700),
        ("ocaml-4", "third", 500),
        ("ocaml-5", "first", 600),
        ("ghc-9", "first", 300),
        ("ghc-9", "second", 300),
        ("ghc-9", "third", 250),
    ],
)
def test_instructions_labelled_by_hand(runtime: str, part: str, least: int) -> None:
    found = compared(runtime, corpus(runtime)[part])
    right = sum(number for (label, answer), number in found.items() if label == answer)
    assert found.total() >= least
    assert right / found.total() >= 0.99


def test_each_component_is_recognised() -> None:
    found: Counter[tuple[str, str]] = Counter()
    for functions in corpus("ocaml-4").values():
        found += compared("ocaml-4", functions)
    labels = {label for label, _ in found}
    assert labels == {OTHER, "integer_tag~", *(
        "allocation gc_check poll record_tag closure_info integer_tag write_barrier".split()
    )}  # fmt: skip
    for component in labels:
        labelled = sum(n for (label, _), n in found.items() if label == component)
        answered = sum(n for (_, answer), n in found.items() if answer == component)
        right = found[component, component]
        assert right / labelled > 0.94, component
        assert right / answered > 0.94, component
