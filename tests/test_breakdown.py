"""The classifier of the breakdown: patterns, allocations, descriptors; on code that `as` makes."""

from __future__ import annotations

import random
import re
import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tare.base.errors import TareError
from tare.records.components import COMPONENTS, MALLOC, OTHER, Certainty
from tare.studies.breakdown import frame_tables, published
from tare.studies.breakdown.classifier import Classification, Classifier
from tare.studies.breakdown.code import Instruction, decode, decode_all
from tare.studies.breakdown.descriptor import Descriptor, read_descriptor, shipped
from tare.studies.breakdown.image import Image
from tare.studies.breakdown.patterns import read_line

Assemble = Callable[[str], bytes]
OCAML = shipped()["ocaml-4"]
START = 0x1000


@pytest.fixture
def assemble(tmp_path: Path) -> Assemble:
    """Machine code of lines in AT&T syntax."""
    if shutil.which("as") is None:
        pytest.skip("binutils is missing")

    def make(text: str) -> bytes:
        source, made, flat = (tmp_path / f"code.{ending}" for ending in ("s", "o", "bin"))
        source.write_text(f".text\n{text}\n")
        subprocess.run(["as", "-o", made, source], check=True)
        subprocess.run(["objcopy", "-O", "binary", "-j", ".text", made, flat], check=True)
        return flat.read_bytes()

    return make


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


def expect(text: str) -> tuple[str, list[str]]:
    """Assembly whose comments are the components; without one it is the program's own."""
    lines = [line.strip() for line in text.strip().splitlines()]
    code = "\n".join(line.split("#")[0] for line in lines)
    wanted = [
        line.partition("#")[2].strip() or OTHER
        for line in lines
        if not line.split("#")[0].strip().endswith(":")
    ]
    return code, wanted


CODE = {
    "a cons": """
        subq $24, %r15        # allocation
        cmpq (%r14), %r15     # gc_check
        jb 9f                 # gc_check
        leaq 8(%r15), %rdi    # allocation
        movq $2048, -8(%rdi)  # record_tag
        movq %rax, (%rdi)
        movq %rbx, 8(%rdi)
        movq %rdi, %rax
        ret
        9:
    """,
    "three objects at once, the last one first": """
        subq $56, %r15        # allocation
        cmpq (%r14), %r15     # gc_check
        jb 9f                 # gc_check
        leaq 48(%r15), %rax   # allocation
        movq $1277, -8(%rax)  # record_tag
        movsd %xmm0, (%rax)
        leaq -24(%rax), %rbx  # allocation
        movq $2049, -8(%rbx)  # record_tag
        movq $1, (%rbx)
        movq %rax, 8(%rbx)
        addq $-16, %rbx       # allocation
        movq $1024, -8(%rbx)  # record_tag
        movq $2048, (%rbx)
        ret
        9:
    """,
    "a closure, with an infix header, its information in registers": """
        subq $72, %r15                    # allocation
        cmpq (%r14), %r15                 # gc_check
        jb 9f                             # gc_check
        leaq 8(%r15), %rax                # allocation
        movq $8439, -8(%rax)              # record_tag
        leaq 100(%rip), %rbx
        movq %rbx, (%rax)
        movabsq $0x10000000000000f, %rbx  # closure_info
        movq %rbx, 8(%rax)                # closure_info
        movq $4345, 16(%rax)              # record_tag
        movq %rdi, 24(%rax)
        movabsq $0x200000000000009, %rsi  # closure_info
        movq %rsi, 32(%rax)               # closure_info
        movq %rdi, 40(%rax)
        movq %rdx, 48(%rax)
        movq %rcx, 56(%rax)
        ret
        9:
    """,
    "a pointer that was put on the stack meanwhile": """
        subq $32, %r15          # allocation
        cmpq (%r14), %r15       # gc_check
        jb 9f                   # gc_check
        leaq 8(%r15), %rax      # allocation
        movq %rax, 16(%rsp)
        movq $3072, -8(%rax)    # record_tag
        xorq %rax, %rax
        movq 16(%rsp), %rbx
        movq $3, (%rbx)
        movq $5, 8(%rbx)
        ret
        9:
    """,
    "headers that do not fill what was taken are not believed": """
        subq $32, %r15        # allocation
        leaq 8(%r15), %rax    # allocation
        movq $2048, -8(%rax)
        ret
    """,
    "a header behind a join is another's": """
        subq $16, %r15        # allocation
        leaq 8(%r15), %rax    # allocation
        1:
        movq $1024, -8(%rax)
        jmp 1b
    """,
    "a check without allocation is a poll": """
        cmpq (%r14), %r15     # poll
        jbe 9f                # poll
        ret
        9:
    """,
    "a check is of one allocation": """
        subq $16, %r15        # allocation
        cmpq (%r14), %r15     # gc_check
        jae 2f                # gc_check
        hlt
        2:
        cmpq (%r14), %r15     # poll
        ja 2b                 # poll
    """,
    "tags are set": """
        leaq 1(%rax,%rax), %rax  # integer_tag
        leaq 1(,%rbx,2), %rcx    # integer_tag
        shlq $1, %rdx            # integer_tag
        incq %rdx                # integer_tag
        shlq $1, %rdx
        movq %rdx, %rax
        xorq %rbx, %rax
        orq $1, %rax             # integer_tag
        orq $2, %rax
        ret
    """,
    "tags are removed": """
        sarq $1, %rax            # integer_tag
        movq (%rax), %rbx
        sarq $1, %rax
        movq %rcx, %rdx
        orq $1, %rax             # integer_tag
        sarq $3, %rax
        orq $1, %rax             # integer_tag
        cvtsi2sdq %rax, %xmm0
        ret
    """,
    "tags are set right again": """
        decq %rax                # integer_tag
        imulq %rbx, %rax
        incq %rax                # integer_tag
        leaq -1(%rax), %rbx      # integer_tag
        addq $-1, %rax           # integer_tag
        addq $2, %rax
        leaq -1(%rax,%rbx), %rcx # integer_tag~
        addq $7, %rax            # integer_tag?
        leaq 3(%rax,%rbx,4), %rax # integer_tag?
        leaq 8(%rsp), %rax
        ret
    """,
}


@pytest.mark.parametrize("what", CODE)
def test_each_instruction_gets_its_component(what: str, assemble: Assemble) -> None:
    code, wanted = expect(CODE[what])
    assert labels(assemble(code)) == wanted


def test_the_barrier_is_its_call_with_its_arguments(assemble: Assemble) -> None:
    code = assemble(
        """
        movq %rbx, %rdi
        movq $1, %rcx
        movq %rax, %rsi
        leaq 8(%rbx), %rdi
        call f
        movq %rbx, %rdi
        call g
        jmp 1b
        1: ret
        .set f, .+0x1000
        .set g, .+0x2000
        """.replace("jmp 1b\n        1: ret", "ret")
    )
    targets = [one.target for one in decode_all(START, code) if one.mnemonic == "call"]
    names = {targets[0] or 0: ["caml_modify"], targets[1] or 0: ["caml_other"]}
    barrier = "write_barrier"
    assert labels(code, names) == [OTHER, OTHER, barrier, barrier, barrier, OTHER, OTHER, OTHER]


def test_the_slow_path_of_a_check(assemble: Assemble) -> None:
    code = assemble(
        """
        1: subq $16, %r15
        cmpq (%r14), %r15
        jb 2f
        3: leaq 8(%r15), %rax
        movq $1024, -8(%rax)
        ret
        2: call f
        jmp 3b
        .set f, .+0x1000
        """
    )
    (target,) = [one.target for one in decode_all(START, code) if one.mnemonic == "call"]
    found = labels(code, {target or 0: ["caml_call_gc"]})
    assert found[-2:] == ["gc_check", "gc_check"]
    (site,) = classify(code).sites
    assert (site.bytes, site.words) == (16, (1,))
    assert site.slow_path == START + len(code) - 7


def test_code_that_is_known_in_pieces(assemble: Assemble) -> None:
    code, wanted = expect(CODE["a cons"])
    everything = list(decode_all(START, assemble(code)))
    pieces = [*everything[5:], *everything[:3]]
    marks = Classifier(OCAML, {}).classify(pieces).marks
    found = [mark.component if (mark := marks.get(key(one))) else OTHER for one in everything]
    assert found == [*wanted[:3], OTHER, OTHER, *wanted[5:]]


# ---- allocation pointers that go up ----

UPWARD = """
schema = 1
name = "upward"
title = "Upward"
recognise = []
[allocation]
register = "r12"
direction = "up"
first = {first}
pointer_tags = 7
component = "allocation"
word = 8
[allocation.header]
size_shift = 8
one = 2
zero = 1
component = "record_tag"
[[pattern]]
allocated = true
code = ["cmp r12, [r13] -> gc_check", "ja _ -> gc_check"]
with_room = ["jbe"]
slow_path = ["jmp _"]
"""

UPWARD_CODE = {
    "it is moved first, and is at the last word": (8, """
        addq $40, %r12            # allocation
        cmpq (%r13), %r12         # gc_check
        ja 9f                     # gc_check
        movq $0x202, -32(%r12)    # record_tag
        movq %rax, -24(%r12)
        movq $0x102, -8(%r12)     # record_tag
        leaq -32(%r12), %rax      # allocation
        movq %rax, (%r12)
        leaq -6(%r12), %rbx       # allocation
        jmp *(%rbp)
        9: jmp *(%rbp)            # gc_check
    """),
    "objects are initialised first": (0, """
        movq $0x202, (%r12)       # record_tag
        movq %rax, 8(%r12)
        leaq 8(%r12), %rbx        # allocation
        movq %rbx, 16(%r12)
        addq $24, %r12            # allocation
        movl $0x102, %ecx         # record_tag
        movq %rcx, (%r12)         # record_tag
        movq %rbx, 8(%r12)
        leaq 8(%r12), %rbx        # allocation
        addq $16, %r12            # allocation
        jmp *(%rbp)
    """),
    "one way fills it, another gives it back": (8, """
        addq $24, %r12            # allocation
        testq %rax, %rax
        jne 1f
        addq $-24, %r12           # allocation
        jmp *(%rbp)
        1: movq $0x202, -16(%r12) # record_tag
        call 2f
        movq %rax, -8(%r12)
        jmp *(%rbp)
        2:
    """),
    "one way gives a part back": (8, """
        addq $40, %r12            # allocation
        movq $0x202, -32(%r12)    # record_tag
        testq %rax, %rax
        jne 1f
        addq $-16, %r12           # allocation
        leaq 8(%r12), %rax
        jmp *(%rbp)
        1: movq $0x102, -8(%r12)  # record_tag
        jmp *(%rbp)
    """),
    "two ways lead there, and nothing is known": (8, """
        addq $24, %r12            # allocation
        testq %rax, %rax
        jne 1f
        jmp 1f
        1: movq $0x202, -16(%r12)
        jmp *(%rbp)
    """),
    "two ways lead there, and both are known": (8, """
        addq $24, %r12            # allocation
        testq %rax, %rax
        jne 1f
        testq %rbx, %rbx
        jne 1f
        addq $-24, %r12           # allocation
        jmp *(%rbp)
        1: movq $0x202, -16(%r12) # record_tag
        jmp *(%rbp)
    """),
    "the way leads backwards": (8, """
        jmp 2f
        1: movq $0x202, -16(%r12) # record_tag
        jmp *(%rbp)
        2: addq $24, %r12         # allocation
        testq %rax, %rax
        jne 1b
        addq $-24, %r12           # allocation
        jmp *(%rbp)
    """),
    "what was taken before is given back": (8, """
        addq $-24, %r12           # allocation
        addq $24, %r12            # allocation
        movq $0x202, -16(%r12)    # record_tag
        jmp *(%rbp)
    """),
    "a word that is no header": (8, """
        addq $24, %r12            # allocation
        movq $0x203, -16(%r12)
        jmp *(%rbp)
    """),
}  # fmt: skip


@pytest.mark.parametrize("what", UPWARD_CODE)
def test_allocation_upwards(what: str, assemble: Assemble, tmp_path: Path) -> None:
    first, text = UPWARD_CODE[what]
    (tmp_path / "upward.toml").write_text(UPWARD.format(first=first))
    code, wanted = expect(text)
    assert labels(assemble(code), runtime=read_descriptor(tmp_path / "upward.toml")) == wanted


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
    '[code]\nprefix = ""\nbegin = ["a"]\nend = []': "different length",
    '[allocation]\ndirection = "left"\nheader = {}': "one of down, up, not 'left'",
    '[symbols]\nsignatures = "none"\nsize = 1': "size: unknown key",
    '[[routine]]\ncomponent = "rent"\nfunctions = []': "component, not 'rent'",
    "[": "is no descriptor",
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


def test_a_damaged_executable_is_refused_or_read(
    tmp_path: Path, compile_c: Callable[..., Path]
) -> None:
    content = compile_c("int main(void) { return 0; }").read_bytes()
    sections = int.from_bytes(content[40:48], "little")
    headers = [*range(16, 800), *range(sections, len(content))]
    dice = random.Random(7)
    refused = 0
    for round_ in range(150):
        damaged = bytearray(content)
        for _ in range(3):
            damaged[dice.choice(headers)] = dice.choice((0, 1, 0x7F, 0xFF))
        path = tmp_path / "damaged"
        path.write_bytes(damaged[: dice.randrange(len(damaged))] if round_ % 10 == 0 else damaged)
        try:
            image = Image(path)
        except TareError:
            refused += 1
        else:
            assert frame_tables.read_frame_tables(image) == {}
            assert OCAML.code_ranges(image) == []
    assert 5 < refused < 150


def test_a_damaged_table_of_the_unwinder(tmp_path: Path, compile_c: Callable[..., Path]) -> None:
    program = compile_c("int main(void) { return 0; }")
    whole = Image(program)
    main = whole.symbols["main"]
    assert any(start <= main < end for start, end in whole.unwound)
    content = program.read_bytes()
    with program.open("rb") as file:
        table = ELFFile(file).get_section_by_name(".eh_frame")
        assert table is not None
        start, size = table["sh_offset"], table["sh_size"]
    dice = random.Random(3)
    refused = 0
    for _ in range(150):
        damaged = bytearray(content)
        for _ in range(3):
            damaged[start + dice.randrange(size)] = dice.choice((0, 1, 0x7F, 0xFF))
        (tmp_path / "damaged").write_bytes(damaged)
        try:
            assert all(isinstance(end, int) for _, end in Image(tmp_path / "damaged").unwound)
        except TareError:
            refused += 1
    assert 5 < refused < 150


# ---- instructions that were labelled by hand ----

CORPORA = Path(__file__).parent / "data" / "breakdown"
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
