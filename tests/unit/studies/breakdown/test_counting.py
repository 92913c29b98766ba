"""Counts of references: the functions and the instructions that are theirs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tare.heap_traces.recording import Frame
from tare.records.components import COMPONENTS, OTHER
from tare.studies.breakdown import inlining
from tare.studies.breakdown.classifier import Classifier
from tare.studies.breakdown.code import decode, decode_all, updates_object
from tare.studies.breakdown.descriptor import shipped
from tare.studies.breakdown.details import Model, ReadMisses, Spent

START = 0x1000
RUST_CLONE = (
    "_$LT$alloc..sync..Arc$LT$T$C$A$GT$$u20$as$u20$core..clone..Clone$GT$::clone::hf8b39c4512d8484b"
)
RUST_DROP = (
    "_$LT$alloc..rc..Rc$LT$T$C$A$GT$$u20$as$u20$core..ops..drop..Drop$GT$::drop::hc8d7f335c2eb7a93"
)
RUST_CONTENT = "core::ptr::drop_in_place$LT$alloc..string..String$GT$::h0b145368ef09e828"
RUST_FREE = "alloc::alloc::dealloc"
SHARED = "std::_Sp_counted_base<(__gnu_cxx::_Lock_policy)2>::"
IN_PLACE = "std::_Sp_counted_ptr_inplace<T, std::allocator<void>, (__gnu_cxx::_Lock_policy)2>::"


@pytest.mark.parametrize(
    ("runtime", "functions", "component"),
    [
        ("rust", ["core::sync::atomic::atomic_add", RUST_CLONE, "main"], "retain"),
        ("rust", ["alloc::rc::{impl#41}::clone<u64, alloc::alloc::Global>", "main"], "retain"),
        ("rust", ["alloc::sync::Weak$LT$T$C$A$GT$::upgrade::hf8b39c4512d8484b"], "retain"),
        ("rust", [RUST_DROP, "main"], "release"),
        ("rust", [RUST_CONTENT, RUST_DROP, "main"], OTHER),
        ("rust", [RUST_FREE, RUST_DROP, "main"], OTHER),
        ("rust", ["alloc::sync::Arc$LT$T$GT$::new::hf8b39c4512d8484b"], None),
        ("shared-ptr", [f"{SHARED}_M_add_ref_copy()", "main"], "retain"),
        ("shared-ptr", [f"{SHARED}_M_release()", "main"], "release"),
        ("shared-ptr", [f"{IN_PLACE}_M_dispose()", f"{SHARED}_M_release()"], OTHER),
        ("shared-ptr", [f"{SHARED}_M_get_use_count() const"], None),
        ("shared-ptr", ["std::__shared_count<2>::~__shared_count()", "main"], "release"),
        ("cpython", ["Py_INCREF", "_Py_NewRef", "list_append"], "retain"),
        ("cpython", ["_Py_IsImmortal", "Py_DECREF", "list_concat"], "release"),
        ("cpython", ["_Py_Dealloc"], None),
        ("perl", ["Perl_SvREFCNT_dec_NN", "Perl_pp_sassign"], "release"),
    ],
)
def test_functions_that_count(
    runtime: str, functions: Sequence[str], component: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unfolded(frames: Sequence[Frame]) -> list[list[Frame]]:
        return [[Frame(function=name, file="a.c") for name in functions] for _ in frames]

    monkeypatch.setattr(inlining, "unfold", unfolded)
    (place,) = inlining.places("/program", [START])
    assert place.known
    mark = shipped()[runtime].mark_of_functions(place.functions)
    assert (mark.component if mark else None) == component


def test_what_only_asks_for_an_object_writes_no_counts() -> None:
    marks = shipped()["shared-ptr"].mark_of_functions
    asking = marks(["std::__shared_count<2>::~__shared_count()", "main"])
    counting = marks([f"{SHARED}_M_release()", "std::__shared_count<2>::~__shared_count()"])
    assert asking
    assert counting
    assert (asking.writes_counts, counting.writes_counts) == (False, True)


def test_without_debug_information_what_is_inlined_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        inlining, "unfold", lambda frames: [[Frame(function="main")] for _ in frames]
    )
    (place,) = inlining.places("/program", [START])
    assert place == inlining.Place(("main",), known=False)


INCREF_311 = "48830001"  # addq $1, (%rax)
POOL_COUNT = "830201"  # addl $1, (%rdx)
ON_STACK = "4883042401"  # addq $1, (%rsp)
DECREF_311 = "48832f01 7402"  # subq $1, (%rdi); je
INCREF_312 = "8b06 83c001 7402 8906"  # mov (%rsi), %eax; add $1, %eax; je; mov %eax, (%rsi)
DECREF_312 = "488b07 85c0 7809 4883e801 488907 7402"
DEALLOC = "488b4308 4889df ff5030"  # mov 8(%rbx), %rax; mov %rbx, %rdi; call *48(%rax)
PERL_INC = "83400801"  # addl $1, 8(%rax)
PERL_WIDE = "4883400801"  # addq $1, 8(%rax)
PERL_DEC = "8b5608 83fa01 7606 83ea01 895608"


@pytest.mark.parametrize(
    ("runtime", "code", "expected"),
    [
        ("cpython", INCREF_311, ["retain"]),
        ("cpython", POOL_COUNT, [OTHER]),
        ("cpython", ON_STACK, [OTHER]),
        ("cpython", DECREF_311, ["release"] * 2),
        ("cpython", INCREF_312, ["retain"] * 4),
        ("cpython", DECREF_312, ["release"] * 6),
        ("cpython", DEALLOC, ["release", OTHER, "release"]),
        ("perl", PERL_INC, ["retain"]),
        ("perl", PERL_WIDE, [OTHER]),
        ("perl", PERL_DEC, ["release"] * 5),
    ],
)
def test_instructions_that_count(runtime: str, code: str, expected: list[str]) -> None:
    instructions = list(decode_all(START, bytes.fromhex(code)))
    marks = Classifier(shipped()[runtime], {}).classify(instructions).marks
    found = [marks.get((one.address, one.length)) for one in instructions]
    assert [OTHER if mark is None else mark.component for mark in found] == expected


@pytest.mark.parametrize(
    ("code", "updates", "atomic"),
    [
        ("f0834308 01", True, True),  # lock addl $1, 8(%rbx)
        ("f00fc103", True, True),  # lock xadd %eax, (%rbx)
        ("894b08", True, False),  # mov %ecx, 8(%rbx)
        ("8b4308", False, False),  # mov 8(%rbx), %eax
        ("894c2408", False, False),  # mov %ecx, 8(%rsp)
        ("837b0801", False, False),  # cmpl $1, 8(%rbx)
    ],
)
def test_updates_of_counts(code: str, updates: bool, atomic: bool) -> None:
    one = decode(START, bytes.fromhex(code))
    assert updates_object(one) is updates
    assert one.atomic is atomic


def test_of_earlier_simulations_new_components_have_nothing() -> None:
    misses = ReadMisses(0, 0)
    spent = {OTHER: Spent(7, 7, {"read": 1})}
    doubled = {OTHER: {"read": 1}}
    model = Model("m", spent, doubled, 1, 1, 1, 0, misses, misses, 2)
    assert set(model.components) == set(COMPONENTS)
    assert model.components["retain"] == Spent(0, 0, {"read": 0})
    assert model.doubled_stalls["release"] == {"read": 0}
