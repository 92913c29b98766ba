"""Which settings to try next: managers as they are, single options of the promising ones, and
what Optuna's sampler makes of all that is known (a tree-structured Parzen estimator of two
objectives, which learns options of a manager together)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import TYPE_CHECKING

from tare.base.errors import UsageError
from tare.base.libraries import optuna
from tare.studies.tune.seen import Seen, front
from tare.studies.tune.space import Choice, Space, setting, values_in

if TYPE_CHECKING:
    from optuna.trial import Trial

UNSET = ""
FEWEST_TO_LEARN_FROM = 8
_ASKS = 16
"""So often the sampler is asked for a setting that was not tried before."""
_SAME_MEMORY = 0.01
_BEYOND_NOISE = 3
_RANK_WEIGHT = 3
"""So many single options of a better manager go before the first of one ranked below it."""


@dataclass(frozen=True)
class Known:
    """``seen`` are settings by name, ``failed`` those of which runs failed; ``time_noise`` and
    ``memory_noise`` are how much one run may differ without a reason, as fractions."""

    baseline: str
    seen: Mapping[str, Seen]
    failed: frozenset[str]
    time_noise: float
    memory_noise: float

    def __contains__(self, name: str) -> bool:
        return name == self.baseline or name in self.seen or name in self.failed


def proposals(space: Space, known: Known, count: int, seed: int) -> list[str]:
    """At most ``count`` settings that were not tried; none when there is nothing left."""
    plain = [manager for manager in space if manager not in known]
    if plain:
        return plain[:count]
    singles = _singles(space, known)
    sampled = _sampled(_helping(space, known), known, seed)
    mixed = (name for pair in zip_longest(singles, sampled) for name in pair if name)
    return list(islice(_once(mixed), count))


def _once(names: Iterable[str]) -> Iterator[str]:
    given: set[str] = set()
    for name in names:
        if name not in given:
            given.add(name)
            yield name


def _singles(space: Space, known: Known) -> list[str]:
    """One option at a time, those of the best managers first."""
    ranks = _ranks([known.seen[manager] for manager in space if manager in known.seen])
    found: list[tuple[int, int, str]] = []
    for manager, rank in ranks.items():
        values = _first_values_first(space[manager])
        names = [setting(manager, {option: value}) for option, value in values]
        found += [
            (rank * _RANK_WEIGHT + place, rank, name)
            for place, name in enumerate(names)
            if name not in known
        ]
    return [name for *_, name in sorted(found)]


def _first_values_first(choices: Sequence[Choice]) -> list[tuple[str, str]]:
    """Options with values: the first of each, then the second of each."""
    columns = zip_longest(*([(each.option, v) for v in each.values] for each in choices))
    return [pair for column in columns for pair in column if pair is not None]


def _ranks(found: Sequence[Seen]) -> dict[str, int]:
    """Of settings by name: 0 for those on the front, 1 for those on the front of the rest."""
    ranks: dict[str, int] = {}
    left, rank = list(found), 0
    while left:
        best = front(left)
        ranks.update((seen.name, rank) for seen in best)
        left = [seen for seen in left if seen not in best]
        rank += 1
    return ranks


def _helping(space: Space, known: Known) -> Space:
    """The values that took less time or less memory when they were set alone, beyond what noise
    does. Memory hardly varies, so most options are left out for good after one run."""

    def helps(manager: str, option: str, value: str) -> bool:
        plain = known.seen[manager]
        alone = known.seen.get(setting(manager, {option: value}))
        if alone is None:
            return False
        less_time = _BEYOND_NOISE * known.time_noise
        less_memory = max(_SAME_MEMORY, _BEYOND_NOISE * known.memory_noise)
        return alone.time < plain.time * (1 - less_time) or alone.memory < plain.memory * (
            1 - less_memory
        )

    kept: dict[str, tuple[Choice, ...]] = {}
    for manager, choices in space.items():
        if manager in known.seen:
            found = (
                Choice(each.option, tuple(v for v in each.values if helps(manager, each.option, v)))
                for each in choices
            )
            kept[manager] = tuple(each for each in found if each.values)
    return {manager: choices for manager, choices in kept.items() if choices}


def _sampled(space: Space, known: Known, seed: int) -> Iterator[str]:
    """What the sampler asks for, as far as it was not tried."""
    if len(known.seen) < FEWEST_TO_LEARN_FROM or not space:
        return
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            seed=seed, multivariate=True, group=True, constant_liar=True, n_startup_trials=0
        )
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
    study.add_trials([*_trials(space, known)])
    for _ in range(_ASKS):
        name = _asked(study.ask(), space)
        if name not in known:
            yield name


def _asked(trial: Trial, space: Space) -> str:
    manager = trial.suggest_categorical("manager", list(space))
    values = {
        choice.option: str(
            trial.suggest_categorical(_parameter(manager, choice), [UNSET, *choice.values])
        )
        for choice in space[manager]
    }
    return setting(manager, {option: value for option, value in values.items() if value != UNSET})


def _parameter(manager: str, choice: Choice) -> str:
    return f"{manager}/{choice.option}"


def _trials(space: Space, known: Known) -> Iterator[optuna.trial.FrozenTrial]:
    categorical = optuna.distributions.CategoricalDistribution
    for manager, choices in space.items():
        distributions: dict[str, optuna.distributions.BaseDistribution] = {
            "manager": categorical(list(space)),
            **{_parameter(manager, each): categorical([UNSET, *each.values]) for each in choices},
        }
        may_be = {each.option: each.values for each in choices}
        for name, seen in known.seen.items():
            values = _values_of(manager, name)
            if values is None or any(v not in may_be.get(o, ()) for o, v in values.items()):
                continue
            parameters = {_parameter(manager, c): values.get(c.option, UNSET) for c in choices}
            yield optuna.trial.create_trial(
                params={"manager": manager, **parameters},
                distributions=distributions,
                values=[seen.time, seen.memory],
            )


def _values_of(manager: str, name: str) -> Mapping[str, str] | None:
    """What ``name`` sets of ``manager``; None where it is a setting of another one."""
    try:
        values = values_in(manager, name)
        return values if setting(manager, values) == name else None
    except UsageError:  # objects and layers have no options here
        return None
