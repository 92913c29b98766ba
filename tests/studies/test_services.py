"""The servers of the suite `services`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import tare as api
from tare.records.metrics import Status
from tare.records.results import read_records
from tests.support.java import workloads_jar
from tests.support.namespaces import unshare

NEEDED = {
    "redis": (("redis-server",), "redis-server"),
    "memcached": (("memcached",), "memcached"),
    "nginx": (("nginx", "wrk"), "nginx-light wrk"),
    "apache": (("apache2", "wrk"), "apache2-bin wrk"),
    "postgres": (("pg_lsclusters", "unshare"), "postgresql"),
    "java": (("java", "javac"), "openjdk-17-jdk-headless"),
    "tomcat": (("java", "mvn"), "maven"),
    "node": (("node",), "nodejs"),
    "python": (("python3",), "python3"),
}


@pytest.mark.parametrize("name", NEEDED)
def test_the_manager_is_inside_the_server(name: str, tmp_path: Path) -> None:
    """Also in PostgreSQL, which is not root there, and in each of its processes."""
    commands, package = NEEDED[name]
    if missing := [each for each in commands if shutil.which(each) is None]:
        pytest.skip(f"{missing[0]} is not installed (package {package})")
    if name == "postgres" and os.geteuid() == 0:
        unshare("PostgreSQL refuses to be root, and there is no user namespace here")
    if name == "tomcat":
        workloads_jar(tmp_path)
    programs = api.suite_programs("services", [name])
    results = api.serve(
        programs, ["jemalloc"], baseline="jemalloc", periods=1, runs=1, folder=tmp_path / "r"
    )
    records = read_records(results.folder)
    assert records
    for record in records:
        outcome = record.outcome
        assert outcome.status is Status.OK, outcome.reason
        assert os.path.basename(outcome.server) == "libtare-jemalloc.so"
        assert outcome.silent_processes == 0
        assert outcome.values["requests_per_second"] > 0
        assert outcome.values["idle_resident_bytes"] > 4 << 20
    found = "postgres" if name == "postgres" else str(shutil.which(commands[0]))
    # A name that is no link may be a script, which starts the program of its own name and version.
    assert Path(records[0].outcome.executable).name.startswith(Path(found).resolve().name)
