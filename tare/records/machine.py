"""What machine this is, and which of its settings add noise to a measurement."""

from __future__ import annotations

import hashlib
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tare.records.header import Machine

_STEERING = re.compile(
    r"(PATH|TZ|LANG|LC_.*|LD_.*|GLIBC_TUNABLES|OMP_.*|GC_.*|.*MALLOC.*|PYTHONMALLOC|JAVA_.*)$"
)


@dataclass(frozen=True)
class Warning_:  # noqa: N801 - Warning is Python's own
    """A setting that adds noise, what it does and what helps. ``files``, patterns of the kernel's
    files, would hold ``value`` on a quiet machine; there are none where Tare cannot set it."""

    setting: str
    effect: str
    mend: str
    files: tuple[str, ...] = ()
    value: str = ""


_GOVERNORS = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
_CLOCK = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq"
_MOST_ASKED = 16
_NO_TURBO = "/sys/devices/system/cpu/intel_pstate/no_turbo"
_BOOST = "/sys/devices/system/cpu/cpufreq/boost"
_HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"


def _read(path: str | Path) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


@dataclass(frozen=True)
class Change:
    """What a file of the kernel's held and holds now. ``trouble`` says why that is not what was
    wished."""

    file: Path
    before: str
    now: str
    trouble: str = ""


def set_quiet(warning: Warning_, root: Path = Path("/")) -> list[Change]:
    """Sets what ``warning`` is about, in all files that exist below ``root``; until the machine
    starts again."""
    files = [path for name in warning.files for path in sorted(root.glob(name.lstrip("/")))]
    return [_set(path, warning.value) for path in files]


def _set(file: Path, value: str) -> Change:
    before = selected(_read(file))
    trouble = ""
    try:
        file.write_text(value)
    except OSError as error:
        trouble = f"cannot be written: {error.strerror}"
    now = selected(_read(file))
    if now != value and not trouble:
        trouble = f"the kernel keeps {now}"
    return Change(file, before, now, trouble)


def selected(text: str) -> str:
    """The choice that the kernel shows in brackets: ``always [madvise] never``."""
    start, end = text.find("["), text.find("]")
    return text[start + 1 : end] if 0 <= start < end else text


def describe_machine() -> dict[str, Any]:
    """Processor, memory, kernel and noisy settings as ``run.json`` records them; sizes in bytes."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in _read("/proc/cpuinfo").splitlines()
            if line.startswith("model name")
        ),
        os.uname().machine,
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    swaps = _read("/proc/swaps").splitlines()[1:]
    return {
        "processor": model,
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": memory,
        "page_bytes": os.sysconf("SC_PAGE_SIZE"),
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "frequency_governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "turbo": _turbo(),
        "transparent_huge_pages": selected(_read(_HUGE_PAGES)),
        "address_space_randomisation": _read("/proc/sys/kernel/randomize_va_space"),
        "swap": bool(swaps),
        "overcommit_memory": _read("/proc/sys/vm/overcommit_memory"),
        "hypervisor": "hypervisor" in _read("/proc/cpuinfo"),
        "load_average": os.getloadavg()[0],
    }


def frequencies_mhz(root: Path = Path("/")) -> tuple[int, int] | None:
    """The lowest and the highest clock that the processors have at this moment; None where the
    kernel does not say. Of many processors some are asked, for each answer takes a while."""
    asked = sorted(os.sched_getaffinity(0))[:_MOST_ASKED]
    files = [root / _CLOCK.format(number).lstrip("/") for number in asked]
    found = [int(text) // 1000 for file in files if (text := _read(file)).isdigit()]
    return (min(found), max(found)) if found else None


def describe_environment() -> dict[str, Any]:
    """The environment that programs inherit, as ``run.json`` records it.

    Values are kept of the variables that steer allocators, the linker, languages and threads; of
    the others only the names, for they may hold secrets. The hash covers all.
    """
    everything = sorted(os.environ.items())
    text = "\0".join(f"{name}={value}" for name, value in everything)
    return {
        "values": {name: value for name, value in everything if _STEERING.match(name)},
        "other_names": [name for name, _ in everything if not _STEERING.match(name)],
        "sha256": hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest(),
    }


def _turbo() -> str:
    if no_turbo := _read(_NO_TURBO):
        return "off" if no_turbo == "1" else "on"
    if boost := _read(_BOOST):
        return "on" if boost == "1" else "off"
    return ""


def noise_warnings(machine: Machine) -> list[Warning_]:
    """The settings of ``machine`` that an experienced person would change before measuring."""
    found = []
    if machine.load_average > 0.5 * machine.cores:
        found.append(
            Warning_(
                f"load average {machine.load_average:.1f} on {machine.cores} cores",
                "other programs take time from the measured one",
                "stop them, or measure when they are done",
            )
        )
    if machine.frequency_governor not in ("", "performance"):
        found.append(
            Warning_(
                f"frequency governor {machine.frequency_governor}",
                "the clock rate follows the load, so short runs look slow",
                "tare doctor --fix, or cpupower frequency-set -g performance",
                (_GOVERNORS,),
                "performance",
            )
        )
    if machine.turbo == "on":
        found.append(
            Warning_(
                "turbo on",
                "the clock rate depends on heat and on the load of other cores",
                "tare doctor --fix, or switch it off under /sys/devices/system/cpu "
                "(intel_pstate/no_turbo or cpufreq/boost)",
                *(((_NO_TURBO,), "1") if _read(_NO_TURBO) else ((_BOOST,), "0")),
            )
        )
    if machine.transparent_huge_pages == "always":
        found.append(
            Warning_(
                "transparent huge pages always",
                "an allocator's resident size depends on the alignment of its chunks",
                f"tare doctor --fix, or echo madvise > {_HUGE_PAGES}",
                (_HUGE_PAGES,),
                "madvise",
            )
        )
    if machine.swap:
        found.append(
            Warning_("swap in use", "a program short of memory slows down unseen", "swapoff -a")
        )
    if machine.hypervisor:
        found.append(
            Warning_(
                "a virtual machine",
                "other guests share its cores and caches",
                "compare only what was measured in the same run, as Tare does",
            )
        )
    return found
