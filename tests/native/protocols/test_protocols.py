"""Protocols between threads, each as a model that Spin goes through: whatever the order, what the
model asserts is true, and nobody waits for ever. A model without one of its steps fails.

A comment that begins with ``>`` quotes what a step stands for in the source, which has to be there.
What threads share in the functions that are named here has to be in the model.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import ROOT

HERE = Path(__file__).parent
needs_spin = pytest.mark.skipif(
    shutil.which("spin") is None, reason="Debian's package spin is missing"
)


@dataclass(frozen=True)
class Protocol:
    """A model, the folder of its source, and the functions of it that are all in the model."""

    name: str
    folder: str
    functions: tuple[str, ...]
    sizes: tuple[str, ...] = ("",)
    large: tuple[str, ...] = ()
    """Definitions of the model, for quick tests and for those behind ``make soak``."""

    @property
    def text(self) -> str:
        return (HERE / f"{self.name}.pml").read_text()

    def without(self, step: str, instead: str) -> str:
        """The model with `instead` of the one step."""
        assert self.text.count(step) == 1, step
        return self.text.replace(step, instead)


CLAIM = Protocol(
    "claim",
    "managers/delay",
    ("Claim", "AwaitClaim", "LetClaim", "BecomeBusy"),
    ("-DTURNS=2,0,0,1", "-DTURNS=0,1,0,1"),
    ("-DTURNS=2,0,0,2 -DWAITING=4", "-DTURNS=1,1,1,1"),
)
PARK = Protocol(
    "park",
    "managers/marksweep",
    ("Park", "BeginEpoch", "StartWorld", "AwaitArrivals"),
    large=("-DGIVEN_UP=2 -DCOLLECTIONS=3",),
)
SHARE = Protocol(
    "share",
    "managers/marksweep",
    ("Leave", "Give", "Await", "TakeSome"),
    ("-DMARKERS=2", "-DMARKERS=3"),
    ("-DMARKERS=4 -DOBJECTS=6",),
)
LOG = Protocol(
    "log",
    "observers/jvm/trace",
    ("log_add", "log_stop", "apply_at", "apply_some", "has_room"),
    ("", "-DTHREADS=1 -DEVENTS=18 -DMOST=20"),
    ("-DTHREADS=3 -DEVENTS=3",),
)
BESIDE = Protocol(
    "beside",
    "managers/marksweep",
    ("SetPhase", "AwaitOtherThan"),
    large=("-DMOVES=4",),
)
TELL = Protocol("tell", "observers/jvm/trace", ("on_free", "all_is_told"), ("", "-DDEATHS=1"))
TAG = Protocol(
    "tag",
    "observers/jvm/trace",
    ("record_allocation", "introduce", "objects_await_tags"),
    large=("-DTHREADS=3 -DOBJECTS=3",),
)
BEGIN = Protocol(
    "begin",
    "observers/jvm/trace",
    ("objects_have_begun", "objects_have_now_begun"),
    large=("-DTHREADS=3 -DOBJECTS=1",),
)
HELPER = Protocol(
    "helper",
    "observers/instrument/memsys",
    ("help", "grant_memory", "helper_has_taken"),
    large=("-DALL=7 -DMEMORY=3",),
)
PROTOCOLS = (CLAIM, PARK, SHARE, LOG, BESIDE, TELL, TAG, BEGIN, HELPER)

BROKEN = [
    pytest.param(protocol, step, instead, size, id=f"{protocol.name}-{number}")
    for protocol, size, steps in (
        (
            CLAIM,
            "-DTURNS=1,0,0,1",
            (
                ("empty(stores[0]) && empty(stores[1]);", "skip;"),
                (":: !Load(BUSY(OTHER)) ->", ":: true ->"),
                (":: Load(CLAIMED(me)) ->", ":: false ->"),
                ("Store(BUSY(me), 0, RELEASE)", "Store(BUSY(me), 0, RELAXED)"),
                ("Store(CLAIMED(OTHER), 0, RELEASE)", "Store(CLAIMED(OTHER), 0, RELAXED)"),
                ("    AwaitClaim();\n    Store(LIMIT(me), 1, RELAXED)", "    skip"),
            ),
        ),
        (
            CLAIM,
            "-DTURNS=2,0,0,2",
            (
                (":: !Load(LIMIT(OTHER)) ->", ":: true ->"),
                ("linked[OTHER] && !Load(TAKEN(OTHER)) ->", "linked[OTHER] ->"),
            ),
        ),
        (
            PARK,
            "",
            (
                (":: tag == seen ->", ":: true ->"),
                (":: epoch == seen -> sleeps[me] = true", ":: true -> sleeps[me] = true"),
                (":: arrived == before -> collector", ":: true -> collector"),
                ("collector_sleeps = false; /*> FutexWake", "skip; /*> FutexWake"),
                (":: !all || !more -> break", ":: true -> break"),
                (":: depth > 0 -> must", ":: false -> must"),
                (":: must_park -> Park()", ":: false -> Park()"),
                (":: seen % 2 == 0", ":: false"),
            ),
        ),
        (
            SHARE,
            "-DMARKERS=2",
            (
                ("idle--; /*>", "skip; /*>"),
                (":: else -> idle++ /*>", ":: else /*>"),
                (":: idle == MARKERS -> break", ":: idle > 0 -> break"),
            ),
        ),
        (
            LOG,
            "",
            (
                (":: !HAS_ROOM(place) ->", ":: false ->"),
                (":: !locked -> locked = true; tries = 0", ":: locked = true; tries = 0"),
                ("late = stopped;", "late = false;"),
                (":: !late && number > MOST ->", ":: false ->"),
                ("atomic { end = taken; stopped = true }", "end = taken; stopped = true"),
                ("state[SLOT(applied)] = FREE;", "skip;"),
                ("    done || IS_FILLED\n", "    if :: !done -> break :: else fi\n"),
                ("  atomic {\n    place = taken;", "  {\n    place = taken;"),
            ),
        ),
        (
            BESIDE,
            "",
            (
                ("    grey = grey | (written & marks);\n", ""),
                ("grey = grey | BIT(page); Drain()", "grey = grey | BIT(page); Drain(); TakeAll()"),
                ("FromRoots(); /*> markers.Mark(", "skip; /*> markers.Mark("),
                ("  TakeAll();\n  ClearMarks();", "  ClearMarks();\n  TakeAll();"),
                (":: sweeps -> marks", ":: false -> marks"),
                ("MarkUnborn(); EnterNew();", "EnterNew(); MarkUnborn();"),
                ("starts = entered; state = marks;", "state = marks; starts = entered;"),
            ),
        ),
        (
            TELL,
            "",
            (
                (":: heard ->\n", ":: true ->\n"),
                (":: before % 2 == 0 ->", ":: true ->"),
                (":: asleep ->", ":: true ->"),
                (":: entries == before ->", ":: true ->"),
            ),
        ),
        (
            TAG,
            "",
            (
                ("    tagging[part] == 0;\n", ""),
                ("  Record();\n  Tag();\n  tagging[me]--", "  Record(); tagging[me]--; Tag()"),
                ("  tagging[me]++; /*>", "  /*>"),
                ("  atomic { !locked -> locked = true };", "  skip;"),
            ),
        ),
        (
            BEGIN,
            "",
            (
                ("  stopped = true;\n  have_begun = true;", "  have_begun = true; stopped = true;"),
                ("  od;\n  stopped = false", "  od; have_begun = false; stopped = false"),
                ("is_first = has_tag[own] }", "is_first = false }"),
                (":: have_begun -> /*> if (!objects_have_begun()) return; */", ":: true ->"),
                (
                    ":: have_begun -> /*> if (!objects_have_begun()) return; is_",
                    ":: true -> /*> is_",
                ),
            ),
        ),
        (
            HELPER,
            "",
            (
                ("  wake_program();      /*>", "  skip; /*>"),
                ("  :: given == next ->", "  :: true ->"),
                ("    wake_helper();  /*>", "    skip; /*>"),
                (":: taken < step && !wants_memory ->", ":: !wants_memory ->"),
                (":: taken < step && !wants_memory ->", ":: taken < step ->"),
                ("    :: made >= STEPS ->", "    :: false ->"),
                ("next >= awaited -> wake_program()", "next >= awaited"),
                ("  wake_helper();      /*>", "  skip; /*>"),
                ("    :: is_over -> goto over", "    :: false -> goto over"),
            ),
        ),
    )
    for number, (step, instead) in enumerate(steps, 1)
]

SHARED = re.compile(
    r"\.(load|store|fetch_\w+|compare_exchange\w*)\(|\bFutex|SYS_membarrier|\bsched_yield|"
    r"\batomic_\w+_explicit\(|\bpthread_mutex_\w+\("
)


def _plain(text: str) -> str:
    return " ".join(text.split())


def _quotes(protocol: Protocol) -> list[str]:
    return [_plain(each) for each in re.findall(r"/\*> (.*?) \*/", protocol.text, re.DOTALL)]


def _source(protocol: Protocol) -> str:
    files = sorted((ROOT / protocol.folder).glob("*.[hc]*"))
    return "\n".join(each.read_text() for each in files)


def _body(source: str, function: str) -> str:
    """From the line of its name to the brace that is as far in."""
    before = r"(?:__attribute__\(\(\w+\)\) )?[\w:&<>]+ (?:[\w:&<>]+ )*"
    pattern = rf"^( *)(?!return ){before}{function}\([^;{{]*\{{([^\n]*\}}|.*?\n\1\}})"
    bodies: list[str] = [
        found[1] for found in re.findall(pattern, source, re.MULTILINE | re.DOTALL)
    ]
    assert len(bodies) == 1, (function, bodies)
    return bodies[0]


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.name)
def test_what_a_model_quotes_is_in_the_source(protocol: Protocol) -> None:
    source = _plain(_source(protocol))
    assert [each for each in _quotes(protocol) if each not in source] == []


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda each: each.name)
def test_a_model_has_all_that_threads_share(protocol: Protocol) -> None:
    source, quotes = _source(protocol), _quotes(protocol)
    lines = [
        _plain(line).removesuffix(" }")
        for function in protocol.functions
        for line in _body(source, function).splitlines()
        if SHARED.search(line)
    ]
    assert lines
    assert [line for line in lines if not any(line in each for each in quotes)] == []


def _go_through(text: str, sizes: str, folder: Path) -> str:
    """What the search prints; it is over, not given up."""
    (folder / "model.pml").write_text(text)
    for command in (
        ["spin", "-a", *sizes.split(), "model.pml"],
        ["gcc", "-w", "-O1", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c"],
        ["./pan", "-m100000"],
    ):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "max search depth too small" not in done.stdout
    return done.stdout


def _errors(said: str) -> str:
    found = re.search(r"errors: (\d+)", said)
    assert found is not None, said
    return found[1]


def _model(protocol: Protocol, sizes: str) -> object:
    return pytest.param(protocol, sizes, id=" ".join((protocol.name, sizes)).strip())


@needs_spin
@pytest.mark.parametrize(
    ("protocol", "sizes"), [_model(each, sizes) for each in PROTOCOLS for sizes in each.sizes]
)
def test_in_any_order(protocol: Protocol, sizes: str, tmp_path: Path) -> None:
    assert _errors(_go_through(protocol.text, sizes, tmp_path)) == "0"


@needs_spin
@pytest.mark.soak
@pytest.mark.parametrize(
    ("protocol", "sizes"), [_model(each, sizes) for each in PROTOCOLS for sizes in each.large]
)
def test_in_any_order_of_more(protocol: Protocol, sizes: str, tmp_path: Path) -> None:
    assert _errors(_go_through(protocol.text, sizes, tmp_path)) == "0"


@needs_spin
@pytest.mark.parametrize(("protocol", "step", "instead", "sizes"), BROKEN)
def test_a_step_that_is_missing_is_found(
    protocol: Protocol, step: str, instead: str, sizes: str, tmp_path: Path
) -> None:
    assert _errors(_go_through(protocol.without(step, instead), sizes, tmp_path)) == "1"
