"""MMTk's collectors: their names and options."""

from __future__ import annotations

import pytest

from tare.base.errors import UsageError
from tare.memory_managers import mmtk
from tare.memory_managers.manager import resolve
from tare.memory_managers.mmtk import PLANS
from tests.support import ROOT

# ---- names ----


def test_names_are_printed_as_they_can_be_typed() -> None:
    manager = resolve("genimmix( heap=64MiB,nursery=4MiB )", replays=True)
    assert manager.name == "genimmix(heap=64MiB, nursery=4MiB)"
    assert resolve(manager.name, replays=True) == manager
    assert manager.replayer[1:] == (
        "--plan",
        "GenImmix",
        "--heap",
        "67108864",
        "--nursery",
        "4194304",
    )


@pytest.mark.parametrize(
    "name",
    [
        "immix(heap=0.5x)",
        "immix(heap=2xx)",
        "immix(heap=65x)",
        "immix(nursery=2x)",
        "immix(heap=0)",
        "immix(nursery=1MiB)",
        "semispace(speed=1)",
        "immix(threads=-1)",
    ],
)
def test_options_that_cannot_be_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        resolve(name, replays=True)


@pytest.mark.parametrize("name", PLANS)
def test_a_name_is_refused_where_programs_run(name: str) -> None:
    with pytest.raises(UsageError, match="no program runs under it"):
        resolve(name)


def test_every_collector_is_an_entry_of_the_catalogue() -> None:
    found = mmtk.recipes()
    assert list(found) == list(PLANS)
    assert all(recipe.options and recipe.title for recipe in found.values())


def test_the_version_is_the_one_that_is_built() -> None:
    manifest = ROOT / "replay" / "mmtk" / "Cargo.toml"
    assert f'mmtk = {{ version = "={mmtk.VERSION}"' in manifest.read_text()
