"""What a comparison of managers comes to, in sentences: which one to take, by which evidence, and
what cannot be told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tare.base.libraries import pl
from tare.base.units import format_percent
from tare.records import evidence as judging
from tare.records.evidence import Evidence, Judged
from tare.report.comparison import change

WORDS = {
    judging.WALL: "wall time",
    judging.PROCESSOR: "processor time",
    judging.COUNTED_BY_CPU: "instructions",
    judging.COUNTED: "instructions",
    judging.MEMORY: "memory",
}
COUNTED_ONCE = "The instructions were counted once under each."
_BOUND = 0.1
"""A gain of at most this is worth a word as a bound."""
_MANAGEMENT = "manager_instructions"
_OF_TIME = (judging.WALL, judging.PROCESSOR, judging.COUNTED_BY_CPU)


@dataclass(frozen=True)
class Comparison:
    """``times`` are what speaks of speed, the most telling first; ``kind`` is what managers are;
    ``is_current``: the baseline is what the program has now; ``share`` is that of memory management
    in the instructions under the baseline, where it was counted."""

    baseline: str
    times: Sequence[Evidence]
    memory: Evidence
    kind: str = "allocator"
    is_current: bool = True
    share: float | None = None


@dataclass(frozen=True)
class Choice:
    """``sentences`` say it, the answer first. ``manager`` is to be taken, by ``evidence``; neither
    where the baseline is to be kept, or where nothing can be told."""

    sentences: Sequence[str]
    manager: str = ""
    evidence: Evidence | None = None


def comparison(
    measurements: pl.DataFrame, study: str, program: str, baseline: str, seed: int
) -> Comparison:
    """Of the runs of ``study``, and of what else in the same folder counted instructions."""
    mine = measurements.filter(pl.col("study") == study)

    def of(metric: str) -> Evidence:
        return judging.evidence(mine, program, baseline, metric, seed)

    times = [*map(of, _OF_TIME), judging.counted(measurements, program, baseline)]
    kind = "manager" if any(map(_is_of_runtime, mine["manager"].unique())) else "allocator"
    return Comparison(
        baseline,
        [each for each in times if each.known],
        of(judging.MEMORY),
        kind,
        share=_share_of_management(measurements, program, baseline),
    )


def _share_of_management(measurements: pl.DataFrame, program: str, baseline: str) -> float | None:
    runs = judging.runs_of(measurements.filter(pl.col("program") == program))
    parts = (runs.get((program, baseline, name)) for name in (_MANAGEMENT, judging.COUNTED))
    part, whole = (each.values[0] if each and each.values else 0.0 for each in parts)
    return part / whole if whole > 0 else None


def _is_of_runtime(manager: str) -> bool:
    """As jvm.g1(heap=64MiB), and unlike ./libmine.so(option=1)."""
    name = manager.partition("(")[0]
    return "." in name and "/" not in name


def difference(judged: Judged | None, metric: str) -> str:
    """In words, with its interval."""
    if judged is None or judged.ratio is None:
        return f"{WORDS[metric]} not known"
    ratio = judged.ratio
    row = {
        "verdict": judged.word,
        "ratio": ratio.median,
        "ratio_low": ratio.low,
        "ratio_high": ratio.high,
    }
    return change(row, WORDS[metric]).replace("less instructions", "fewer instructions")


Advice = Callable[[str, str], str]
"""Says of a manager, and of what it changes, what to do."""


def fastest(compared: Comparison, advice: Advice) -> Choice:
    """By the first evidence that tells, and why those before it did not; of managers that are as
    fast as each other, the one with the least memory."""
    reasons = _too_few([each for each in compared.times if each.has_too_few])
    kept = ""
    for each in compared.times:
        if each.lower:
            chosen = min(each.tied, key=lambda name: _ratio(compared.memory.known.get(name)))
            what = difference(each.known[chosen], each.metric)
            answer = advice(chosen, what) + _ties(chosen, each.tied, compared.memory)
            before = [kept] if kept else []
            if each.metric == judging.COUNTED and each.runs == 1:
                reasons.append(COUNTED_ONCE)
            return Choice([*before, answer, *reasons], chosen, each)
        missing = [name for name in compared.times[0].known if name not in each.known]
        if each.keeps and missing:
            what = WORDS[each.metric].capitalize()
            reasons.append(f"{what} cannot tell: not known under {' and '.join(missing)}.")
        elif each.keeps and not kept:
            kept = _kept(compared, each, "speed")
        elif not kept and not each.has_too_few:
            reasons.append(_cannot_tell(each))
    if kept:
        return Choice([kept, *reasons])
    if (
        compared.share is not None
        and compared.share < judging.LITTLE
        and compared.kind == "allocator"
    ):
        return Choice(_little_to_gain(compared, compared.share, reasons))
    unknown = f"Cannot tell whether another {compared.kind} is faster than {compared.baseline}."
    return Choice([unknown, *reasons])


def smallest(compared: Comparison, advice: Advice) -> Choice:
    memory = compared.memory
    if memory.lower:
        chosen = memory.lower[0]
        answer = advice(chosen, difference(memory.known[chosen], memory.metric))
        return Choice([answer], chosen, memory)
    if memory.keeps:
        return Choice([_kept(compared, memory, "memory")])
    if memory.has_too_few:
        return Choice(_too_few([memory]))
    return Choice([_cannot_tell(memory)] if memory.known else [])


def _ratio(judged: Judged | None) -> float:
    return judged.ratio.median if judged is not None and judged.ratio else float("inf")


def _kept(compared: Comparison, each: Evidence, why: str) -> str:
    verb = "Keep" if compared.is_current else "Nothing beats"
    answer = f"{verb} {compared.baseline} for {why}: no other {compared.kind}"
    what = WORDS[each.metric]
    if not each.most_gain:
        less = "fewer" if what == "instructions" else "less"
        return f"{answer} needs {less} {what}."
    return f"{answer} can save more than {format_percent(each.most_gain)} of the {what}."


def _little_to_gain(compared: Comparison, share: float, reasons: Sequence[str]) -> list[str]:
    """Where no time tells who is faster, its intervals may still bound what could be saved."""
    part = format_percent(share)
    answer = (
        f"Little to gain by a faster allocator: memory management is {part} of the instructions"
    )
    for each in compared.times:
        is_time = each.metric in (judging.WALL, judging.PROCESSOR) and not each.has_too_few
        if is_time and each.most_gain is not None and each.most_gain <= _BOUND:
            most = format_percent(each.most_gain)
            return [f"{answer}, and no other saves more than {most} of the {WORDS[each.metric]}."]
    return [f"{answer}.", *reasons]


def _too_few(found: Sequence[Evidence]) -> list[str]:
    """One sentence for all that have too few runs."""
    if not found:
        return []
    what = " and ".join(WORDS[each.metric] for each in found).capitalize()
    fewest = min(each.runs for each in found)
    runs = "was 1 run" if fewest == 1 else f"were {fewest} runs"
    needed = max(each.needed for each in found)
    return [f"{what} cannot tell: there {runs} under each manager, and a verdict takes {needed}."]


def _cannot_tell(each: Evidence) -> str:
    what = WORDS[each.metric].capitalize()
    if each.visible is None:
        return f"{what} cannot tell."
    return f"{what} cannot tell: only differences above {format_percent(each.visible)} would show."


def _ties(chosen: str, tied: Sequence[str], memory: Evidence) -> str:
    others = [name for name in tied if name != chosen]
    if not others:
        return ""
    verb = "are" if len(others) > 1 else "is"
    more = all(_ratio(memory.known.get(name)) > _ratio(memory.known.get(chosen)) for name in others)
    with_more = ", with more memory" if more and chosen in memory.known else ""
    return f" {' and '.join(others)} {verb} as fast within the noise{with_more}."


def conclusion(compared: Comparison) -> str:
    """One sentence."""

    def nothing(chosen: str, _what: str) -> str:
        return chosen

    choice = fastest(compared, nothing)
    if choice.evidence is None or not choice.manager:
        return " ".join(choice.sentences[:2])
    judged = choice.evidence.known[choice.manager]
    assert judged.ratio is not None
    ratio, what = judged.ratio, WORDS[choice.evidence.metric]
    times = f"{1 / ratio.median:.2f} times ({1 / ratio.high:.2f} to {1 / ratio.low:.2f})"
    memory = difference(compared.memory.known.get(choice.manager), judging.MEMORY)
    return f"By {what} {choice.manager} was {times} as fast as {compared.baseline}, with {memory}."


def savings(choice: Choice, bases: Mapping[str, float]) -> tuple[float, float, float, float] | None:
    """What the chosen manager saves of the baseline's median, at least and at most, and the ratio;
    None where nothing was chosen."""
    if choice.evidence is None or choice.evidence.metric not in bases:
        return None
    ratio, base = choice.evidence.known[choice.manager].ratio, bases[choice.evidence.metric]
    assert ratio is not None
    return base * (1 - ratio.median), base * (1 - ratio.high), base * (1 - ratio.low), ratio.median
