"""Whether a run can have the part of the machine that it is to have, and what the launcher is told
of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tare.base.errors import MissingError, UsageError
from tare.base.native import native_file
from tare.memory_managers.manager import Manager
from tare.records.conditions import AS_IS, Conditions, places, shown
from tare.records.machine import selected
from tare.records.runs import Limits

_PROCESSORS = Path("/sys/devices/system/cpu/online")
_NODES = Path("/sys/devices/system/node/has_memory")
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage")
_OF_THE_MACHINE = "as-the-machine-says"
_ADVISED = "where-advised"


def check(managers: Iterable[Manager], limits: Limits) -> None:
    """Raises UsageError or MissingError for what runs under ``managers`` cannot have here."""
    for each in {manager.conditions.over(limits.conditions) for manager in managers}:
        arguments(each)


def arguments(conditions: Conditions) -> list[str]:
    """The words for the launcher. Raises what ``check`` raises."""
    words = []
    if conditions.cpus:
        _check_processors(conditions.cpus)
        words += ["--processors", conditions.cpus]
    if conditions.memory_nodes:
        _check_nodes(conditions.memory_nodes)
        words += ["--memory-nodes", conditions.memory_nodes]
    if conditions.hugepages not in ("", AS_IS):
        words += ["--huge-pages", _word_for(conditions.hugepages)]
    return words


def _check_processors(wanted: str) -> None:
    here = os.sched_getaffinity(0)
    if not (missing := places(wanted) - here):
        return
    online = _listed(_PROCESSORS) or here
    if absent := missing - online:
        raise UsageError(
            f"there is no processor {shown(absent)}", f"this machine has {shown(online)}"
        )
    raise UsageError(
        f"this process may not use processor {shown(missing)}",
        f"taskset or the container allows {shown(here)}",
    )


def _check_nodes(wanted: str) -> None:
    nodes = _listed(_NODES)
    if len(nodes) < 2:
        raise UsageError(
            "this machine has one memory node, so there is nothing to choose",
            "leave out memory nodes",
        )
    if absent := places(wanted) - nodes:
        raise UsageError(
            f"there is no memory node {shown(absent)}", f"this machine has {shown(nodes)}"
        )


def _listed(path: Path) -> set[int]:
    text = _read(path)
    return places(text) if text else set()


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _policy() -> tuple[str, Path]:
    """Who gets transparent huge pages on this machine (always, madvise, never; "" where its kernel
    has none), and the file that says so."""
    common = _HUGE_PAGES / "enabled"
    size = _read(_HUGE_PAGES / "hpage_pmd_size")
    if size.isdigit():
        of_size = _HUGE_PAGES / f"hugepages-{int(size) // 1024}kB" / "enabled"
        if (own := selected(_read(of_size))) not in ("", "inherit"):
            return own, of_size
    return selected(_read(common)), common


def _word_for(wanted: str) -> str:
    """A process can be refused what the machine gives, and not be given what that refuses."""
    if wanted == "never":
        return wanted
    given, file = _policy()
    if not given:
        raise MissingError(f"hugepages={wanted}: this kernel has no transparent huge pages")
    if wanted == given:
        return _OF_THE_MACHINE
    hint = f"as root, for all programs: echo {wanted} > {file}"
    if wanted == "madvise" and given == "always":
        if _takes(_ADVISED):
            return _ADVISED
        raise MissingError(
            "hugepages=madvise: this machine gives huge pages to all (always); to change that for "
            "one program needs Linux 6.18 or later",
            hint,
        )
    if given == "madvise":
        hint = f"let the manager ask: jemalloc(thp=always), glibc(hugetlb=thp); or {hint}"
    who = "only on request (madvise)" if given == "madvise" else "to nobody (never)"
    raise MissingError(f"hugepages={wanted}: this machine gives huge pages {who}", hint)


@cache
def _takes(huge_pages: str) -> bool:
    """Whether the kernel does, which only it can tell: distributions add to old ones."""
    launcher = str(native_file("bin/tare-launch"))
    command = [launcher, "--huge-pages", huge_pages, "--", "true"]
    return '"end":"error"' not in subprocess.run(
        command, capture_output=True, text=True, check=False
    ).stdout.replace(" ", "")
