"""Puts the recorder into a process that runs, and takes it out again; and has its allocator report.
tare-inject has the process call the functions of attached.cpp and account.cpp, both in
observers/recorder."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tare.base.errors import TareError, UsageError
from tare.base.native import native_file
from tare.base.version import __version__
from tare.observers import recorder
from tare.observers.asked import Asked
from tare.observers.recording_switch import FILE as SWITCH_FILE
from tare.observers.recording_switch import Switch
from tare.observers.tracing import finish, partial_folder
from tare.programs.program import NAME_LIMIT
from tare.records.machine import describe_machine
from tare.records.metrics import Status
from tare.records.runs import now

OBJECT = "lib/libtare-attached.so"
ACCOUNT_OBJECT = "lib/libtare-account.so"
INJECTOR = "bin/tare-inject"
_CALM_SECONDS = 15.0
_INJECTION_SECONDS = 60.0
_NOT_PERMITTED, _BUSY, _NOT_LOADED = 3, 4, 5
_NO_ROOM = "static TLS block"
"""In what glibc's loader says of a library whose variables of each thread have no room."""
_AT_ONCE = 1e-9
_ALONE_SECONDS = 30
"""After which the process goes on unobserved, where Tare has not been seen."""
_LOOK_SECONDS = 1.0
_MAPS_BYTES = 64 << 20
_CLASS_64 = b"\x02"
_NEEDED = ("mmap", "munmap", "dlopen", "dlsym", "dlerror")
_FAULTS = {
    -1: "it has no malloc that it shares with its libraries",
    -2: "it cannot write to the folder of the trace",
    -3: "it has no address space left",
    -4: "nothing in it calls malloc by way of a library",
}


@dataclass(frozen=True)
class Target:
    """A process that can be recorded. ``functions`` are addresses of the C library's, ``code`` is
    where the program's own lies, or nothing where that has an allocator."""

    pid: int
    executable: str
    words: list[str]
    started: str
    functions: dict[str, int]
    code: tuple[int, int]

    @property
    def name(self) -> str:
        return Path(self.executable).name

    def is_there(self) -> bool:
        """Whether it is, and no other that has its number now."""
        return _started(self.pid) == self.started


def target_of(pid: int) -> Target:
    """The process ``pid``. UsageError where it cannot be recorded, with the reason."""
    native_file(OBJECT)
    native_file(INJECTOR)
    process = Path("/proc", str(pid))
    started = _started(pid)
    if not started:
        raise UsageError(f"there is no process {pid}", "give the number of one that runs")
    if pid == os.getpid():
        raise UsageError(f"process {pid} is Tare itself")
    if (owner := process.stat().st_uid) != os.geteuid():
        raise UsageError(f"process {pid} is of another user (uid {owner})", "run tare as that user")
    try:
        if os.readlink(process / "ns/mnt") != os.readlink("/proc/self/ns/mnt"):
            raise UsageError(
                f"process {pid} runs in a container: it sees other files", "run tare inside it"
            )
        executable = os.readlink(process / "exe")
        with (process / "maps").open("rb") as file:
            maps = file.read(_MAPS_BYTES).decode(errors="replace")
        with (process / "exe").open("rb") as file:
            kind = file.read(5)[4:]
        words = (process / "cmdline").read_bytes()[:4096].decode(errors="replace").split("\0")
    except PermissionError:
        raise not_allowed(pid, "its files in /proc cannot be read") from None
    except OSError as error:
        raise UsageError(f"process {pid} cannot be looked at: {error.strerror}") from None
    if kind != _CLASS_64:
        raise UsageError(f"process {pid} is no 64-bit program")
    if "/libtare-recorder.so" in maps:
        raise UsageError(f"process {pid} is watched already: it runs under Tare's recorder")
    if (tracer := _status(pid, "TracerPid")) not in ("", "0"):
        raise UsageError(f"process {pid} is watched already, by process {tracer}")
    library = re.search(r"/\S*/libc(-[\d.]+)?\.so\.6$", maps, re.MULTILINE)
    if library is None:
        raise UsageError(
            f"process {pid} ({executable}) is statically linked or without glibc",
            "start it under tare trace, where that can be",
        )
    return Target(
        pid=pid,
        executable=executable,
        words=[word for word in words if word],
        started=started,
        functions=_functions(pid, maps, library[0]),
        code=_code(process / "exe", _places(maps, executable)),
    )


def _places(maps: str, path: str) -> list[tuple[int, int]]:
    """Where the parts of a file lie that are code, behind where its first part begins."""
    rows = [line.split(None, 5) for line in maps.splitlines()]
    mine = [row for row in rows if len(row) > 5 and row[5] == path]
    if not mine:
        return []
    base = int(mine[0][0].partition("-")[0], 16)
    code = [row[0].partition("-") for row in mine if "x" in row[1]]
    return [(base, base), *((int(start, 16), int(end, 16)) for start, _, end in code)]


def _functions(pid: int, maps: str, library: str) -> dict[str, int]:
    """Addresses of what the process is to call."""
    (base, _), *_ = _places(maps, library)
    values = _exported(Path("/proc", str(pid), "root", library[1:]), _NEEDED)
    if len(values) < len(_NEEDED):
        raise UsageError(
            f"process {pid} has a C library that was replaced, or is older than glibc 2.34",
            "start the program again",
        )
    return {name: base + value for name, value in values.items()}


def _code(executable: Path, places: list[tuple[int, int]]) -> tuple[int, int]:
    """Where a thread is in no allocator, as far as it is in the program itself."""
    return (0, 0) if len(places) < 2 or _exported(executable, ("malloc",)) else places[1]


def allocator_of(target: Target) -> str:
    """The file whose malloc serves the process, empty where that is the C library."""
    with Path("/proc", str(target.pid), "maps").open("rb") as file:
        maps = os.fsdecode(file.read(_MAPS_BYTES))
    paths: dict[str, None] = dict.fromkeys(re.findall(r"^\S+ ..x\S+ .* (/.*)$", maps, re.MULTILINE))
    for path in [target.executable, *paths]:
        is_system = re.match(r"(libc|ld)[-.]", Path(path).name)
        if not is_system and exported_by(target, path, ("malloc",)):
            return path
    return ""


def exported_by(target: Target, path: str, names: tuple[str, ...]) -> dict[str, int]:
    """Those of the names that a file of the process exports, with their addresses in it."""
    return _exported(Path("/proc", str(target.pid), "root", path[1:]), names)


def _exported(path: Path, names: tuple[str, ...]) -> dict[str, int]:
    """Those of the names that a file exports, with their addresses in it."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    try:
        with path.open("rb") as file:
            table = ELFFile(file).get_section_by_name(".dynsym")
            if not isinstance(table, SymbolTableSection):
                return {}
            found = {name: table.get_symbol_by_name(name) or [] for name in names}
    except (OSError, ELFError):
        return {}
    return {
        name: symbol["st_value"]
        for name, symbols in found.items()
        for symbol in symbols
        if symbol["st_shndx"] != "SHN_UNDEF"
    }


def _started(pid: int) -> str:
    """When it was, in the kernel's clock; nothing of what is not there or has ended."""
    try:
        fields = Path("/proc", str(pid), "stat").read_text(errors="replace").rpartition(")")[2]
    except OSError:
        return ""
    state, *rest = fields.split()
    return "" if state in "ZX" else rest[18]


def _status(pid: int, name: str) -> str:
    try:
        text = Path("/proc", str(pid), "status").read_text(errors="replace")
    except OSError:
        return ""
    match = re.search(rf"^{name}:\s*(\S+)", text, re.MULTILINE)
    return match[1] if match else ""


def not_allowed(pid: int, reason: str) -> UsageError:
    """What to say where the kernel refuses."""
    scope = Path("/proc/sys/kernel/yama/ptrace_scope")
    limited = scope.is_file() and scope.read_text().strip() != "0"
    hint = (
        f"allow it: sysctl kernel.yama.ptrace_scope=0 ({scope} is {scope.read_text().strip()})"
        if limited
        else "in a container it takes the capability SYS_PTRACE"
    )
    return UsageError(f"process {pid} cannot be attached to: {reason}", hint)


class Attached:
    """The recorder in a process, a context manager. ``recording`` is the folder that it writes
    to."""

    def __init__(self, target: Target, recording: Path, what: Asked) -> None:
        self._target = target
        self._recording = recording.resolve()
        self._what = what
        self._detach = ""
        self._interrupted = False

    def __enter__(self) -> Attached:
        self._claimed = _claim(self._target)
        # A copy of its own, which no other recording of this process has.
        library = self._recording / "libtare-attached.so"
        shutil.copyfile(native_file(OBJECT), library)
        self._switch = Switch(self._recording, paused=False)
        self._switch.until(time.monotonic() + _INJECTION_SECONDS + _ALONE_SECONDS)
        try:
            patched, detach = self._inject(
                "attach",
                *_loading(
                    self._target,
                    library,
                    self._recording,
                    self._what,
                    str(self._recording / SWITCH_FILE),
                ),
            )
            if int(patched) <= 0:
                raise UsageError(
                    f"process {self._target.pid} cannot be recorded: {_FAULTS[int(patched)]}"
                )
        except TareError:
            self._leave()
            raise
        self._detach = detach
        return self

    def wait(self, seconds: float | None) -> bool:
        """Until the time is over, or the process is; whether it is still there."""
        end = None if seconds is None else time.monotonic() + seconds
        while self._target.is_there():
            if self._interrupted:
                raise KeyboardInterrupt
            self._switch.until(time.monotonic() + _ALONE_SECONDS)
            left = _LOOK_SECONDS if end is None else min(_LOOK_SECONDS, end - time.monotonic())
            if left <= 0:
                return True
            time.sleep(left)
        return False

    def __exit__(self, *_: object) -> None:
        try:
            if self._target.is_there():
                self._inject("detach", self._detach)
        finally:
            self._leave()

    def _leave(self) -> None:
        self._switch.until(_AT_ONCE)  # its children, too
        self._switch.__exit__()
        self._claimed.close()

    def _inject(self, what: str, *words: str) -> list[str]:
        said, is_interrupted = _injected(self._target, what, *words)
        self._interrupted |= is_interrupted
        return said


def account_of(target: Target, folder: Path) -> None:
    """Has the process's allocator write what it knows of its heap into files in ``folder``: see
    observers/recorder/account.cpp. UsageError where that cannot be."""
    library = folder / Path(ACCOUNT_OBJECT).name
    shutil.copyfile(native_file(ACCOUNT_OBJECT), library)
    with _claim(target):
        said, is_interrupted = _injected(target, "attach", *_loading(target, library, folder))
    if is_interrupted:
        raise KeyboardInterrupt
    if int(said[0]) <= 0:
        raise UsageError(f"the allocator of process {target.pid} could not report on its heap")


def _claim(target: Target) -> socket.socket:
    """For this Tare alone, and however it ends. The kernel knows names of sockets that lie in no
    folder."""
    claimed = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        claimed.bind(f"\0tare-attached-{target.pid}-{target.started}")
    except OSError:
        claimed.close()
        raise UsageError(
            f"process {target.pid} is watched already: another tare is attached to it"
        ) from None
    return claimed


def _loading(
    target: Target, library: Path, folder: Path, what: Asked | None = None, switch: str = ""
) -> list[str]:
    """The words that have the injector load a library."""
    names = (target.functions[name] for name in ("dlopen", "dlsym", "dlerror"))
    sample, sites = (what.sample_bytes, int(what.sites)) if what else (0, 0)
    return [*(f"{name:x}" for name in names), str(library), str(folder), str(sample), str(sites),
            switch]  # fmt: skip


def _injected(target: Target, what: str, *words: str) -> tuple[list[str], bool]:
    """What the injector printed, and whether the user interrupted. It goes on to its end even where
    Tare is killed meanwhile."""
    start, end = target.code
    names = (target.functions["mmap"], target.functions["munmap"])
    command = [
        str(native_file(INJECTOR)),
        what,
        str(target.pid),
        str(_CALM_SECONDS),
        f"{start:x}-{end:x}",
        *(f"{name:x}" for name in names),
        *words,
    ]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        is_interrupted = False
        while True:  # however impatient the user, it first lets the process go
            try:
                said, reason = process.communicate()
                break
            except KeyboardInterrupt:
                is_interrupted = True
    if process.returncode != 0:
        raise refused(target.pid, process.returncode, reason.strip())
    return said.split(), is_interrupted


def refused(pid: int, status: int, reason: str) -> TareError:
    """What the injector's exit ``status`` means; ``reason`` is what it printed."""
    if status == _NOT_PERMITTED:
        return not_allowed(pid, "the kernel does not permit it")
    if status == _BUSY:
        return UsageError(
            f"process {pid} was at no place in {_CALM_SECONDS:.0f} s at which it can call "
            "functions of Tare safely",
            "try again when it does other work",
        )
    if status == _NOT_LOADED and _NO_ROOM in reason:
        return UsageError(
            f"process {pid} was attached to too often: each time leaves a library in it, and its "
            "threads' static memory has room for no more",
            "restart it; and record for longer rather than again and again",
        )
    if status == _NOT_LOADED:
        return UsageError(f"process {pid} cannot load a library of Tare: {reason}")
    return UsageError(f"process {pid} cannot be recorded: {reason or 'the injector failed'}")


def trace_of(
    target: Target,
    folder: Path,
    what: Asked,
    seconds: float | None,
    note: Callable[[str], None],
) -> dict[str, Any]:
    """Record the process for so long, or until it ends or on Ctrl-C, and leave the trace in
    ``folder``; what its meta.json holds."""
    facts: dict[str, Any] = {
        "tare": __version__,
        "observer": "recorder",
        "observed": what.observed(),
        "reachability_bytes": 0,
        "sample_bytes": what.sample_bytes,
        "switched": False,
        "last_seen": False,
        "program": {
            "name": " ".join([target.name, *target.words[1:]])[:NAME_LIMIT],
            "argv": target.words,
            "executable": target.executable,
        },
        "manager": "own",
        "manager_version": "",
        "started": now(),
        "machine": describe_machine(),
        "server": "",
        "wall_seconds": None,
        "status": str(Status.OK),
        "attached": target.pid,
    }
    with partial_folder(folder, note) as partial:
        recording, made = partial / "recording", partial / "trace"
        recording.mkdir()
        made.mkdir()
        note(f"putting the recorder into process {target.pid}")
        begin = time.monotonic()
        with Attached(target, recording, what) as attached:
            begin = time.monotonic()
            note(f"recording {target.name}" + ("" if seconds else ": Ctrl-C ends it"))
            try:
                attached.wait(seconds)
            except KeyboardInterrupt:
                note("taking the recorder out of it: the process goes on")
            facts["wall_seconds"] = time.monotonic() - begin
        headers = recorder.read_headers(recording)
        facts["server"] = os.path.realpath(headers[0].servers[0]) if headers else ""
        return finish(recording, made, folder, facts, "", note)
