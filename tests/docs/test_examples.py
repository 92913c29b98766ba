"""The examples for GitHub and for Kubernetes: formats, and that they ask for what there is."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

import check_jsonschema
import click
import pytest
import yaml
from click.testing import CliRunner

from tare.__main__ import tare_group
from tests.support import ROOT

WORKFLOW = ROOT / "docs" / "examples" / "gate.yml"
JOB = yaml.safe_load((ROOT / "docs" / "examples" / "job.yaml").read_text())
POD = JOB["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


def is_workflow(file: Path) -> bool:
    words = ["--builtin-schema", "vendor.github-workflows", str(file)]
    return CliRunner().invoke(check_jsonschema.main, words).exit_code == 0


def test_the_workflow_is_one_and_what_is_not_is_seen(tmp_path: Path) -> None:
    assert is_workflow(WORKFLOW)
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(WORKFLOW.read_text().replace("runs-on:", "runs_on:"))
    assert not is_workflow(wrong)


def test_the_workflow_gives_the_action_its_inputs_and_may_comment() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
    workflow = yaml.safe_load(WORKFLOW.read_text())
    (given,) = (
        step["with"] for step in workflow["jobs"]["gate"]["steps"] if "tare@" in step["uses"]
    )
    required = {name for name, described in action.items() if described.get("required")}
    assert required <= set(given) <= set(action)
    assert given["comment"] == "true"
    assert workflow["permissions"]["pull-requests"] == "write"


def parsed(words: list[str]) -> dict[str, Any]:
    command = tare_group.get_command(click.Context(tare_group), words[0])
    assert command is not None
    return command.make_context(words[0], words[1:]).params


def test_the_job_runs_a_command_that_there_is() -> None:
    parsed(CONTAINER["args"])
    with pytest.raises(click.NoSuchOption):
        parsed(["weigh", "--no-such-option", *CONTAINER["args"][1:]])


def test_the_job_writes_only_where_the_root_is_not_read_only() -> None:
    assert CONTAINER["securityContext"]["readOnlyRootFilesystem"]
    volumes = {volume["name"] for volume in POD["volumes"]}
    mounted = {PurePosixPath(mount["mountPath"]) for mount in CONTAINER["volumeMounts"]}
    assert {mount["name"] for mount in CONTAINER["volumeMounts"]} == volumes
    results = PurePosixPath(parsed(CONTAINER["args"])["folder"])
    assert mounted == {results.parent, PurePosixPath("/tmp")}


def test_the_job_is_of_no_rights_and_never_measures_twice() -> None:
    assert CONTAINER["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not CONTAINER["securityContext"]["allowPrivilegeEscalation"]
    assert POD["securityContext"]["runAsNonRoot"]
    assert CONTAINER["resources"]["requests"] == CONTAINER["resources"]["limits"]
    assert (POD["restartPolicy"], JOB["spec"]["backoffLimit"]) == ("Never", 0)
