"""Collectors of a JVM: their names and options."""

from __future__ import annotations

from pathlib import Path

import pytest

from tare.base.errors import MissingError, UsageError
from tare.memory_managers.manager import resolve
from tare.memory_managers.runtimes import Setting, jvm
from tare.programs import java_command
from tare.programs.program import Program


def test_options_behind_the_program_are_its_own() -> None:
    program = Program("test", ("java", "-cp", "a:b", "-ea", "Main", "-Xmx64m", "-XX:+UseG1GC"))
    assert java_command.options_of(program) == ["-cp", "-ea"]
    jar = Program("test", ("/opt/jdk/bin/java", "-Xss1m", "-jar", "x.jar", "-Xmx64m"))
    assert java_command.options_of(jar) == ["-Xss1m"]


def test_options_are_inserted_where_the_jvm_reads_them() -> None:
    java = java_command.with_options(Program("test", ("java", "Main")), ["-Xmx1m"])
    assert java.argv == ("java", "-Xmx1m", "Main")
    script = java_command.with_options(Program("test", ("./run",)), ["-Da=b c", "-Xmx1m"])
    assert script.argv == ("./run",)
    assert script.environment[java_command.VARIABLE].endswith('"-Da=b c" -Xmx1m')


@pytest.mark.parametrize(
    "name",
    [
        "jvm.nothing",
        "jvm.serial(threads=2)",
        "jvm.zgc(young=8MiB)",
        "jvm.g1(heap=none)",
        "jvm.g1(heap=0.5x)",
        "jvm.g1(heap=0)",
        "jvm.serial(period=100KiB)",
        "jvm.parallel(period=4MiB, young=8MiB)",
        "jvm.serial(full-period=64MiB)",
        "jvm.serial(period=4MiB, full-period=6MiB)",
        "delay(jvm.g1)",
        "jvm.g1(plan=Immix)",
        "jvm.mmtk(plan=NoSuchPlan)",
        "jvm.mmtk(full-period=64MiB)",
    ],
)
def test_names_that_mean_nothing_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        resolve(name)


@pytest.mark.parametrize(("version", "passed"), [("21.0.8", True), ("25.0.3", False)])
def test_an_option_that_the_jvm_lost_is_left_out(
    version: str, passed: bool, tmp_path: Path
) -> None:
    (tmp_path / "release").write_text(f'JAVA_VERSION="{version}"\n')
    program = Program("test", (str(tmp_path / "bin" / "java"), "Main"))
    setting = resolve("jvm.parallel(period=4MiB)").runtime
    assert setting is not None
    words = jvm.advice(setting, program).argv
    assert "-XX:+UseParallelGC" in words
    assert ("-XX:-ScavengeBeforeFullGC" in words) == passed


def test_a_name_can_be_typed_in_again() -> None:
    name = "jvm.serial(heap=64MiB, period=4MiB, full-period=64MiB)"
    assert resolve(name).name == name
    assert resolve(resolve(name).name).runtime == resolve(name).runtime


def test_a_collector_of_a_runtime_replays_nothing() -> None:
    with pytest.raises(UsageError, match="replays nothing"):
        resolve("jvm.g1", replays=True)


def test_without_java_the_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(jvm, "agent", lambda: tmp_path)
    with pytest.raises(MissingError) as error:
        jvm.check(Setting("jvm", "g1"), Program("test", ("java", "Main")))
    assert "jdk" in error.value.hint
