"""Control groups of containers, in folders that look like those of the kernel."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tare.base.errors import MissingError
from tare.observers import containers
from tare.records.conditions import Container

MIB = 1 << 20


@pytest.fixture
def own(tmp_path: Path) -> Path:
    folder = tmp_path / "self"
    folder.mkdir()
    return folder


def unified(own: Path, mount: Path, **passing: str) -> Path:
    """A process in the group user/session, where first (the mount), user and session pass these
    controllers on; with the files and lines of Linux 6.1 under systemd 252."""
    inside = mount / "user/session"
    inside.mkdir(parents=True)
    available = "cpuset cpu io memory hugetlb pids rdma misc"
    for name, group in {"first": mount, "user": mount / "user", "session": inside}.items():
        (group / "cgroup.controllers").write_text(f"{available}\n")
        available = passing.get(name, "")
        (group / "cgroup.subtree_control").write_text(f"{available}\n")
        if group != mount:  # the kernel's first group has no type
            (group / "cgroup.type").write_text("domain\n")
    (own / "cgroup").write_text("0::/user/session\n")
    (own / "mountinfo").write_text(
        f"31 24 0:26 / {mount} rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 "
        "rw,nsdelegate,memory_recursiveprot\n"
    )
    return inside


def separate(own: Path, mount: Path) -> None:
    """The first version, with a folder for each controller."""
    (own / "cgroup").write_text("4:memory:/of/job\n2:cpu,cpuacct:/\n0::/\n")
    lines = []
    for number, controllers in enumerate(("memory", "cpu,cpuacct")):
        folder = mount / controllers
        (folder / "of/job").mkdir(parents=True)
        lines.append(f"{number} 1 0:{number} / {folder} rw - cgroup cgroup rw,{controllers}\n")
    lines.append(f"30 1 0:9 / {mount}/unified rw - cgroup2 cgroup2 rw\n")
    (own / "mountinfo").write_text("".join(lines))


def test_the_nearest_group_that_passes_its_controllers_on_has_the_new_one(
    own: Path, tmp_path: Path
) -> None:
    mount = tmp_path / "cgroup"
    unified(own, mount, first="cpu memory pids", user="cpu memory pids")
    (group,) = containers.make(Container(64 * MIB, 0.5), own)
    assert group.parent == mount / "user"
    assert (group / "memory.max").read_text() == str(64 * MIB)
    assert (group / "cpu.max").read_text() == "50000 100000"
    assert containers.version(own) == 2


def test_one_group_has_all_controllers_of_the_second_version(own: Path, tmp_path: Path) -> None:
    """As of systemd-run --user --scope without Delegate=yes: the nearest passes memory on alone. A
    process that entered a second group would leave the first, and its limit."""
    mount = tmp_path / "cgroup"
    unified(own, mount, first="cpu memory pids", user="memory pids")
    (group,) = containers.make(Container(64 * MIB, 0.5), own)
    assert group.parent == mount
    (without_quota,) = containers.make(Container(64 * MIB), own)
    assert without_quota.parent == mount / "user"


def test_swap_is_off_where_there_is_any(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount = tmp_path / "cgroup"
    unified(own, mount, first="cpu memory pids")
    mkdir = Path.mkdir

    def of_the_kernel(path: Path) -> None:
        mkdir(path)
        for name in ("memory.swap.max", "memory.oom.group"):
            (path / name).write_text("max")

    monkeypatch.setattr(Path, "mkdir", of_the_kernel)
    (group,) = containers.make(Container(), own)
    assert (group / "memory.swap.max").read_text() == "0"
    assert (group / "memory.oom.group").read_text() == "1"
    assert not (group / "memory.max").exists()


def test_the_first_version_has_a_group_for_each_controller(own: Path, tmp_path: Path) -> None:
    separate(own, tmp_path)
    memory, processors = containers.make(Container(32 * MIB, 2), own)
    assert memory.parent == tmp_path / "memory/of/job"
    assert processors.parent == tmp_path / "cpu,cpuacct"
    assert (memory / "memory.limit_in_bytes").read_text() == str(32 * MIB)
    assert (processors / "cpu.cfs_quota_us").read_text() == "200000"
    assert containers.version(own) == 1


def test_groups_of_processes_that_are_no_more_are_removed(own: Path, tmp_path: Path) -> None:
    separate(own, tmp_path)
    folder = tmp_path / "memory/of/job"
    gone = next(pid for pid in range(1 << 22, 1 << 23) if not Path(f"/proc/{pid}").exists())
    names = {f"tare-{gone}-0": False, f"tare-{os.getpid()}-999999": True, "tare-mine": True}
    for name in names:
        (folder / name).mkdir()
    containers.make(Container(), own)
    assert {name: (folder / name).exists() for name in names} == names


@pytest.mark.parametrize("passing", [{}, {"first": "cpu memory pids", "user": "memory"}])
def test_who_may_make_none_is_told_what_to_do(
    own: Path, tmp_path: Path, passing: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    unified(own, tmp_path / "cgroup", **passing)
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    with pytest.raises(MissingError, match="no container can be made here") as refused:
        containers.make(Container(), own)
    assert "Delegate=yes" in refused.value.hint


def test_nobody_but_root_is_sent_to_the_first_version(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    separate(own, tmp_path)
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    with pytest.raises(MissingError, match="memory/of/job cannot be written to") as refused:
        containers.make(Container(), own)
    assert "run as root" in refused.value.hint
    assert "systemd-run" not in refused.value.hint


def test_the_first_group_is_told_to_pass_controllers_on(own: Path, tmp_path: Path) -> None:
    mount = tmp_path / "cgroup"
    unified(own, mount)
    with pytest.raises(MissingError, match="'memory' and 'cpu'") as refused:
        containers.make(Container(processors=1), own)
    assert refused.value.hint == f"run first: echo +memory +cpu >{mount}/cgroup.subtree_control"


def test_a_group_with_processes_is_told_to_become_empty_first(own: Path, tmp_path: Path) -> None:
    """As of a container with a namespace of its own: other groups than the kernel's first refuse
    (EBUSY) to pass controllers on while they have processes."""
    mount = tmp_path / "cgroup"
    unified(own, mount)
    (own / "cgroup").write_text("0::/\n")
    (mount / "cgroup.type").write_text("domain\n")
    with pytest.raises(MissingError) as refused:
        containers.make(Container(), own)
    moved = f"mkdir -p {mount}/all; xargs -n1 <{mount}/cgroup.procs >{mount}/all/cgroup.procs"
    assert refused.value.hint == (
        f"run first: {moved}; echo +memory >{mount}/cgroup.subtree_control"
    )


def test_a_kernel_without_groups_is_told_apart(own: Path) -> None:
    (own / "cgroup").write_text("")
    (own / "mountinfo").write_text("30 1 0:2 / / rw - ext4 /dev/root rw\n")
    with pytest.raises(MissingError, match="offers no control groups"):
        containers.make(Container(), own)


def test_what_was_made_before_a_refusal_is_removed(own: Path, tmp_path: Path) -> None:
    separate(own, tmp_path)
    (tmp_path / "cpu,cpuacct/of/job").rmdir()
    (tmp_path / "cpu,cpuacct/of").rmdir()
    (tmp_path / "cpu,cpuacct").rmdir()
    with pytest.raises(MissingError):
        containers.make(Container(processors=1), own)
    assert not list((tmp_path / "memory/of/job").glob("tare-*/memory.max"))
