"""What is installed, what works on this machine, and why something does not."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from tare.base.documents import converted
from tare.base.errors import TareError
from tare.base.libraries import pl
from tare.base.native import native_file
from tare.base.units import format_percent, format_seconds
from tare.memory_managers import runtimes, suitable
from tare.memory_managers.catalogue import broken_recipes, load_recipes, object_path
from tare.memory_managers.install import cargo, cargo_package
from tare.memory_managers.manager import OWN, machine_libc, resolve
from tare.observers import containers, instrument, recorder
from tare.observers.runner import run_once
from tare.programs.program import Program
from tare.records.conditions import Container
from tare.records.header import Machine
from tare.records.machine import describe_machine, noise_warnings, set_quiet
from tare.records.metrics import HARDWARE_METRICS, Status
from tare.records.runs import Limits
from tare.records.stalls import MUCH, Stalls, measure_stalls


@dataclass(frozen=True)
class Finding:
    """``state`` is ``works``, ``missing``, ``broken``, ``noise`` or ``set``; ``mend`` says what
    helps, or how to undo it."""

    subject: str
    state: str
    detail: str
    mend: str = ""
    needed: bool = False


def examine() -> list[Finding]:
    """Every check, by really trying: a run is started and every manager serves one."""
    findings = [
        _tried("launcher", lambda: str(native_file("bin/tare-launch")), needed=True),
        _tried("probe", lambda: str(native_file("lib/libtare-probe.so")), needed=True),
        _tried("instrument", lambda: str(instrument.launcher())),
        _tried("recorder", lambda: str(recorder.require())),
        _tried("C library", lambda: str(machine_libc()), needed=True),
        _tried("containers", _containers),
    ]
    if all(finding.state == "works" for finding in findings if finding.needed):
        findings += _run_findings()
    of_cargo = (
        cargo(),
        "fetches the sources of some allocators",
        f"apt-get install {cargo_package()}",
    )
    findings += [_tool(*tool) for tool in (of_cargo, *_TOOLS)]
    findings += [
        Finding(warning.setting, "noise", warning.effect, warning.mend)
        for warning in noise_warnings(converted(describe_machine(), Machine))
    ]
    return [*findings, finding_of(measure_stalls())]


def fix() -> list[Finding]:
    """Sets what makes measurements noisy and can be set; a finding for each file of the kernel's
    that was written, or could not be."""
    return [
        Finding(str(change.file), "broken", change.trouble, "run as root: tare doctor --fix")
        if change.trouble
        else Finding(
            str(change.file),
            "set",
            f"{change.before} → {change.now}, until the machine reboots",
            f"to undo: echo {change.before} > {change.file}",
        )
        for warning in noise_warnings(converted(describe_machine(), Machine))
        for change in set_quiet(warning)
    ]


_TOOLS = (
    ("cmake", "builds allocators on demand", "apt-get install cmake"),
    ("ninja", "builds allocators on demand", "apt-get install ninja-build"),
    ("g++", "builds allocators on demand", "apt-get install g++"),
    ("valgrind", "only for the tests of counts", "apt-get install valgrind"),
    ("chromium", "only for the tests of pages", "apt-get install chromium"),
)


def finding_of(found: Stalls) -> Finding:
    took = (
        f"they took {format_percent(found.share)} of a busy thread's time, the longest "
        f"{format_seconds(found.longest_seconds)}"
    )
    if found.share < MUCH:
        return Finding("stalls", "works", took)
    return Finding(
        "stalls",
        "noise",
        f"{took}: latencies above p{100 * (1 - found.share):.4g} are the machine's",
        "stop other programs, or measure on processors that nobody shares",
    )


def _tried(subject: str, attempt: Callable[[], str], needed: bool = False) -> Finding:
    try:
        return Finding(subject, "works", attempt(), needed=needed)
    except TareError as error:
        return Finding(subject, "missing", error.message, error.hint, needed)


def _containers() -> str:
    containers.check(Container(processors=1.0))
    return f"for minheap --container, by control groups of version {containers.version()}"


def _tool(name: str, purpose: str, mend: str) -> Finding:
    path = shutil.which(name)
    if path is None:
        return Finding(name, "missing", purpose, mend)
    try:
        shown = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding(name, "broken", f"{path}: {error}", mend)
    first = (shown.stdout or shown.stderr).splitlines()[:1]
    return Finding(name, "works", first[0] if first else path)


def _trial() -> Program:
    """A program that does nothing, where PATH leads nowhere, too."""
    true = shutil.which("true") or shutil.which("true", path=os.defpath) or "true"
    return Program("doctor", (true,))


def _run_findings() -> list[Finding]:
    program = _trial()
    findings = []
    with tempfile.TemporaryDirectory(prefix="tare-doctor-") as folder:
        outcome = run_once(program, resolve(OWN), Limits(timeout_seconds=20), Path(folder))
        if outcome.status is Status.OK:
            took = format_seconds(outcome.values["wall_seconds"])
            findings.append(Finding("a measured run", "works", f"`true` took {took}", needed=True))
        else:
            findings.append(
                Finding("a measured run", "broken", outcome.reason, outcome.error_tail, True)
            )
        counters = [name for name in HARDWARE_METRICS if name in outcome.values]
        findings.append(
            Finding("hardware counters", "works", ", ".join(counters))
            if counters
            else Finding(
                "hardware counters",
                "missing",
                "this machine has none: their columns are omitted",
                "sysctl kernel.perf_event_paranoid=2, on a machine that has them",
            )
        )
        findings += [_manager_finding(name, Path(folder)) for name in load_recipes()]
        findings += [
            Finding(f"manager {name}", "broken", error.message, error.hint)
            for name, error in broken_recipes().items()
        ]
        findings += [_runtime_finding(name, Path(folder)) for name in runtimes.recipes()]
    return findings


def _runtime_finding(name: str, folder: Path) -> Finding:
    """The runtime says its version under that collector."""
    subject = f"manager {name}"
    runtime = runtimes.runtime(name.partition(".")[0])
    program = Program("doctor", runtime.TRIAL, ignore_output=True)
    if runtimes.found(runtime.TRIAL[0]) is None:
        return Finding(subject, "missing", runtime.TITLE, f"apt-get install {runtime.PACKAGE}")
    manager = resolve(name)
    try:
        suitable.check([program], [manager])
    except TareError as error:
        return Finding(subject, "missing", error.message, error.hint)
    outcome = run_once(program, manager, Limits(20.0), folder)
    if outcome.status is Status.NOT_LOADED and outcome.exit_code:
        return Finding(subject, "missing", outcome.reason)  # it refused, so it does not have it
    if outcome.status is not Status.OK:
        return Finding(subject, "broken", f"{outcome.reason} {outcome.error_tail}".strip())
    return Finding(subject, "works", f"{manager.version}, served a test run")


def _manager_finding(name: str, folder: Path) -> Finding:
    recipe = load_recipes()[name]
    subject = f"manager {name}"
    if recipe.kind != "system" and object_path(recipe) is None:
        return Finding(subject, "missing", recipe.title, f"tare managers install {name}")
    outcome = run_once(_trial(), resolve(name), Limits(20.0), folder)
    if outcome.status is not Status.OK:
        return Finding(subject, "broken", f"{outcome.reason} {outcome.error_tail}".strip())
    return Finding(subject, "works", f"{recipe.version}, served a test run")


def examination() -> pl.DataFrame:
    """What works here: a row per check, with the columns subject, state, detail, mend, needed."""
    columns = [field.name for field in fields(Finding)]
    return pl.DataFrame([astuple(finding) for finding in examine()], schema=columns, orient="row")
