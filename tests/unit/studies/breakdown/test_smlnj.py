"""Components of compiled SML: instructions labelled by hand, and damaged executables."""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tare.base.errors import TareError
from tare.records.components import OTHER, Certainty
from tare.studies.breakdown.classifier import Classifier
from tare.studies.breakdown.code import Instruction, decode
from tare.studies.breakdown.descriptor import shipped
from tare.studies.breakdown.image import Image
from tests.support import ROOT

Labelled = list[tuple[Instruction, str]]
SMLNJ = shipped()["smlnj-110"]
HOME = Path("/usr/lib/smlnj/bin")
RUNTIME = HOME / ".run" / "run.x86-linux"
needs_smlnj = pytest.mark.skipif(
    not all((HOME / ".heap" / f"{name}.x86-linux").exists() for name in ("sml", "ml-yacc")),
    reason="Debian's packages smlnj and ml-yacc are missing",
)
# ---- instructions that were labelled by hand ----

CORPUS = ROOT / "tests" / "unit" / "studies" / "labelled" / "smlnj-110.txt"
ROW = re.compile(r"(?P<address>[0-9a-f]+) (?P<bytes>[0-9a-f]+) +(?P<label>[a-z_~]+) +(?P<text>.+)")


def corpus() -> dict[str, list[Labelled]]:
    """By part, pieces of code: instructions with their labels."""
    parts: dict[str, list[Labelled]] = {}
    for line in CORPUS.read_text().splitlines():
        if line.startswith("## part "):
            pieces = parts.setdefault(line.removeprefix("## part "), [])
        elif line.startswith("# "):
            pieces.append([])
        elif (row := ROW.fullmatch(line)) is not None:
            one = decode(int(row["address"], 16), bytes.fromhex(row["bytes"]), 32)
            pieces[-1].append((one, row["label"]))
        else:
            assert not line or line.startswith("##"), line
    return parts


def compared(pieces: list[Labelled]) -> Counter[tuple[str, str]]:
    """How often which label met which answer."""
    found: Counter[tuple[str, str]] = Counter()
    for rows in pieces:
        marks = Classifier(SMLNJ, {}).classify([one for one, _ in rows]).marks
        for one, label in rows:
            mark = marks.get((one.address, one.length))
            sure = mark is None or mark.certainty is Certainty.SURE
            found[label, (mark.component if mark else OTHER) + ("" if sure else "~")] += 1
    return found


@pytest.mark.parametrize(("part", "least"), [("first", 650), ("second", 340), ("third", 390)])
def test_instructions_labelled_by_hand(part: str, least: int) -> None:
    found = compared(corpus()[part])
    right = sum(number for (label, answer), number in found.items() if label == answer)
    assert found.total() >= least
    assert right / found.total() >= 0.99


def test_each_component_is_recognised() -> None:
    found: Counter[tuple[str, str]] = Counter()
    for pieces in corpus().values():
        found += compared(pieces)
    labels = {label for label, _ in found}
    assert labels == {OTHER, "integer_tag~", "position_independent~", *(
        "allocation gc_check record_tag integer_tag write_barrier position_independent".split()
    )}  # fmt: skip
    for component in labels:
        labelled = sum(n for (label, _), n in found.items() if label == component)
        answered = sum(n for (_, answer), n in found.items() if answer == component)
        assert found[component, component] / labelled > 0.94, component
        assert found[component, component] / answered > 0.94, component


@needs_smlnj
def test_the_runtime_is_recognised_by_its_archive(tmp_path: Path) -> None:
    assert SMLNJ.recognises(Image(RUNTIME))
    shutil.copy(RUNTIME, tmp_path / "alone")
    assert not SMLNJ.recognises(Image(tmp_path / "alone"))
    alien = Image(Path("/bin/sh").resolve())
    assert alien.bits == 64
    assert not SMLNJ.recognises(alien)


@needs_smlnj
def test_damaged_executables_of_32_bits(tmp_path: Path) -> None:
    content = RUNTIME.read_bytes()
    dice = random.Random(32)
    refused = 0
    for _ in range(100):
        damaged = bytearray(content[:4096])
        for _ in range(3):
            damaged[dice.randrange(512)] = dice.choice((0, 1, 0x7F, 0xFF))
        (tmp_path / "damaged").write_bytes(damaged)
        try:
            SMLNJ.recognises(Image(tmp_path / "damaged"))
        except TareError:
            refused += 1
    assert refused > 10
