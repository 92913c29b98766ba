"""Control groups of the kernel that a run gets for itself, as a container has them: with a limit on
memory, no swap, and a quota of processor time. Both versions of the kernel's interface are known.

``make`` makes them for one run. The launcher puts the program into them, and removes them at its
end; ``remove`` is for where no launcher came to it, and ``make`` removes what an earlier process
left that was killed.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tare.base.errors import MissingError
from tare.records.conditions import Container

_NAME = "tare-{pid}-{number}"
_LEFT = re.compile(r"tare-(\d+)-\d+")
_PERIOD_MICROSECONDS = 100_000
_MEMORY, _PROCESSORS = "memory", "cpu"
_OWN = Path("/proc/self")
_IN_ANOTHER = (
    "; a container of another tool needs /sys/fs/cgroup writable, as docker run --privileged makes "
    "it"
)
_HINT = f"run as root, or by systemd-run --user --scope -p Delegate=yes tare …{_IN_ANOTHER}"
_HINT_OF_FIRST = f"run as root: this version of control groups is for nobody else{_IN_ANOTHER}"
_numbers = itertools.count()


@dataclass(frozen=True)
class _Place:
    """Where groups for a controller can be made."""

    folder: Path
    unified: bool
    """Whether it has the second version of the interface, where one group is for all."""


def check(container: Container) -> None:
    """Raises MissingError where no such groups can be made here."""
    remove(make(container))


def make(container: Container, own: Path = _OWN) -> list[Path]:
    """New groups, empty, with what ``container`` says."""
    controllers = [_MEMORY] + ([_PROCESSORS] if container.processors is not None else [])
    places = _places(controllers, own)
    made: dict[Path, Path] = {}
    try:
        for controller in controllers:
            place = places[controller]
            group = made.get(place.folder)
            if group is None:
                _remove_left(place.folder)
                name = _NAME.format(pid=os.getpid(), number=next(_numbers))
                group = place.folder / name
                group.mkdir()
                made[place.folder] = group
            for file, value in _values(controller, place.unified, container).items():
                _write(group / file, value)
    except OSError as error:
        remove(made.values())
        raise _refused(f"{error.filename}: {error.strerror}", _HINT) from None
    except BaseException:
        remove(made.values())
        raise
    return list(made.values())


def remove(groups: Iterable[Path]) -> None:
    """Those that are still there, and empty."""
    for group in groups:
        with suppress(OSError):
            group.rmdir()


def version(own: Path = _OWN) -> int:
    """Of the interface that limits memory here."""
    return 2 if _places([_MEMORY], own)[_MEMORY].unified else 1


def _values(controller: str, unified: bool, container: Container) -> dict[str, str]:
    """What is written where; a file may be missing whose name ends with ``?``, for without swap
    there is none to switch off."""
    if controller == _PROCESSORS:
        quota = round((container.processors or 0.0) * _PERIOD_MICROSECONDS)
        if unified:
            return {"cpu.max": f"{quota} {_PERIOD_MICROSECONDS}"}
        return {
            "cpu.cfs_period_us": str(_PERIOD_MICROSECONDS),
            "cpu.cfs_quota_us": str(quota),
        }
    limit = container.memory_bytes
    if unified:
        values = {"memory.swap.max?": "0", "memory.oom.group?": "1"}
        return values if limit is None else {**values, "memory.max": str(limit)}
    values = {"memory.swappiness?": "0"}
    if limit is None:
        return values
    return {
        **values,
        "memory.limit_in_bytes": str(limit),
        "memory.memsw.limit_in_bytes?": str(limit),  # with swap; it cannot be below the other
    }


def _write(file: Path, value: str) -> None:
    path = file.with_name(file.name.removesuffix("?"))
    if path != file and not path.exists():
        return
    path.write_text(value)


def _places(controllers: Collection[str], own: Path) -> dict[str, _Place]:
    """By controller. A process is in one group of the second version, so what the first version
    does not have gets one place there that passes it all on."""
    memberships = dict(_memberships((own / "cgroup").read_text()))
    mounts = list(_mounts((own / "mountinfo").read_text()))
    places: dict[str, _Place] = {}
    for mount, root, kind, options in mounts:
        for controller in options.intersection(controllers) if kind == "cgroup" else ():
            folder = _below(mount, root, memberships.get(controller, "/"))
            if not os.access(folder, os.W_OK):
                raise _refused(f"{folder} cannot be written to", _HINT_OF_FIRST)
            places[controller] = _Place(folder, unified=False)
    rest = [controller for controller in controllers if controller not in places]
    if not rest:
        return places
    for mount, root, kind, _ in mounts:
        if kind == "cgroup2" and _has(mount / "cgroup.controllers", rest):
            inside = _below(mount, root, memberships.get("", "/"))
            place = _Place(_passing_on(rest, inside, mount), unified=True)
            return {**places, **dict.fromkeys(rest, place)}
    raise _refused(f"the kernel offers no control groups with the controller {_shown(rest)}", _HINT)


def _passing_on(controllers: Collection[str], inside: Path, mount: Path) -> Path:
    """The nearest group at or above ``inside`` whose new groups get the ``controllers``."""
    above = [inside, *inside.parents]
    writable = [
        folder
        for folder in above[: above.index(mount) + 1]
        if os.access(folder, os.W_OK) and _has(folder / "cgroup.controllers", controllers)
    ]
    for folder in writable:
        if _has(folder / "cgroup.subtree_control", controllers):
            return folder
    hint = _HINT
    if writable:
        # But for the kernel's first group, one with processes of its own cannot pass them on.
        group, emptied = writable[-1], ""
        if (group / "cgroup.type").exists():
            emptied = (
                f"mkdir -p {group}/all; xargs -n1 <{group}/cgroup.procs >{group}/all/cgroup.procs; "
            )
        passed = " ".join(f"+{controller}" for controller in controllers)
        hint = f"run first: {emptied}echo {passed} >{group}/cgroup.subtree_control"
    raise _refused(
        f"no group at or above that of this process has {_shown(controllers)} in "
        "cgroup.subtree_control and can be written to",
        hint,
    )


def _refused(why: str, hint: str) -> MissingError:
    return MissingError(f"no container can be made here: {why}", hint)


def _shown(controllers: Iterable[str]) -> str:
    return " and ".join(f"'{controller}'" for controller in controllers)


def _memberships(text: str) -> Iterator[tuple[str, str]]:
    """By controller, "" for the unified hierarchy, the group that a process is in."""
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, path


def _mounts(text: str) -> Iterator[tuple[Path, str, str, set[str]]]:
    """Where control groups are mounted, with which root, kind and options."""
    for line in text.splitlines():
        before, _, behind = line.partition(" - ")
        kind, _, options = behind.split(" ", 2)
        if kind.startswith("cgroup"):
            root, mount = before.split(" ")[3:5]
            yield Path(mount), root, kind, set(options.split(","))


def _below(mount: Path, root: str, path: str) -> Path:
    """The folder of the group ``path``; that of the mount where it lies outside."""
    inside = os.path.relpath(path, root)
    folder = mount / inside
    return folder if not inside.startswith("..") and folder.is_dir() else mount


def _has(file: Path, words: Iterable[str]) -> bool:
    try:
        return set(words) <= set(file.read_text().split())
    except OSError:
        return False


def _remove_left(folder: Path) -> None:
    """Groups of processes that are no more: who was killed could not remove them."""
    for group in folder.glob("tare-*"):
        found = _LEFT.fullmatch(group.name)
        if found and not Path("/proc", found[1]).exists():
            remove([group])
