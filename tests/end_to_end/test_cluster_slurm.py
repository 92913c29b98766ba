"""What the documentation shows for Slurm, under a Slurm of the test's own: two nodes on this
machine, with daemons, ports and files apart from those of a Slurm that may be here."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tare.records.runs import Run
from tests.end_to_end.test_cli import wait_until
from tests.end_to_end.test_cluster import PROGRAMS, Told, check_whole, measured
from tests.support import ROOT

DAEMONS = ("munged", "slurmctld", "slurmd")
NODES = ("one", "two")

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not all(shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") for name in DAEMONS),
        reason="Slurm is not installed (slurmctld, slurmd, slurm-client, munge), which setup leaves"
        " alone, since their packages start services",
    ),
]


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def configuration(folder: Path) -> str:
    controller, *ports = free_ports(1 + len(NODES))
    host = socket.gethostname().partition(".")[0]
    nodes = "\n".join(
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1"
        " RealMemory=1000 Feature=epyc"
        for name, port in zip(NODES, ports, strict=True)
    )
    return f"""
ClusterName=tare
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
SchedulerParameters=sched_interval=1
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


@pytest.fixture
def slurm() -> Iterator[dict[str, str]]:
    """The environment in which Slurm's commands, and so dask-jobqueue, talk to this Slurm."""
    with contextlib.ExitStack() as ended:
        # Others must be able to come to munge's socket, which pytest's folders do not allow.
        folder = Path(ended.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        (folder / "state").mkdir()
        (folder / "slurm.conf").write_text(configuration(folder))
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}:/usr/sbin"
        environment = {**os.environ, "SLURM_CONF": f"{folder}/slurm.conf", "PATH": path}

        def start(*command: str) -> None:
            log = ended.enter_context((folder / f"{len(command)}-{command[0]}.out").open("wb"))
            daemon = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            ended.callback(daemon.wait)
            ended.callback(daemon.terminate)

        kinds = ("socket", "key-file", "log-file", "pid-file", "seed-file")
        munge = [f"--{kind}={folder}/munge.{kind.partition('-')[0]}" for kind in kinds]
        start("munged", "--foreground", "--force", *munge)
        wait_until((folder / "munge.socket").exists, "munge")
        start("slurmctld", "-D")
        for name in NODES:
            start("slurmd", "-D", "-N", name)

        def ready() -> bool:
            shown = told(["sinfo", "-h", "-N", "-o", "%T"], environment)
            return shown.split() == ["idle"] * len(NODES)

        wait_until(ready, "Slurm's nodes")
        yield environment


def told(command: Sequence[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.stdout


def shown_for_slurm() -> str:
    page = (ROOT / "docs" / "campaigns.md").read_text()
    part = page.partition("### Slurm\n")[2].partition("\n### ")[0]
    (block,) = re.findall(r"```text\n(.*?)```", part, re.DOTALL)
    return str(block)


@pytest.fixture
def scheduler(slurm: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """The address that the program of the documentation prints, while that is open."""
    with subprocess.Popen(
        [sys.executable, "-c", shown_for_slurm() + "\ninput()\n"],
        env=slurm,
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as opened:
        assert opened.stdout is not None
        try:
            yield opened.stdout.readline().strip()
        finally:
            opened.send_signal(signal.SIGINT)  # closes the cluster, as the end of a session does
            opened.communicate()
            wait_until(lambda: not told(["squeue", "-h"], slurm).strip(), "the end of all jobs")


def test_what_is_shown_for_slurm(slurm: dict[str, str], scheduler: str, tmp_path: Path) -> None:
    cancelled = []

    def cancel_one(number: int, _run: Run) -> None:
        if number == 8:
            running = told(["squeue", "-h", "-t", "R", "-o", "%i"], slurm).split()
            cancelled.append(running[0])
            told(["scancel", running[0]], slurm)

    watcher = Told(cancel_one)
    records = measured(tmp_path / "r", scheduler, watcher=watcher, patience=300)
    check_whole(records, PROGRAMS)
    assert cancelled
    assert sum(" joined (" in note for note in watcher.notes) >= len(NODES)
    submitted = told(["squeue", "-h", "-o", "%i"], slurm).split()
    assert cancelled[0] not in submitted
    assert submitted, "another job takes the place of the one that was cancelled"
