"""The programs of a suite that can run here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tare.base.errors import MissingError, UsageError
from tare.programs.program import Program
from tare.programs.suite import as_program, load_suite, missing, prepare


def suite_programs(
    name_or_path: str, only: Sequence[str] = (), report: Callable[[str], None] = print
) -> list[Program]:
    """The programs of a suite that can run here, their inputs made, for ``compare``.

    ``only`` names some of them. ``report`` is told of those that cannot run, of what to install
    for them, and of what is made. Raises MissingError when none can run.
    """
    suite = load_suite(name_or_path)
    if unknown := sorted(set(only) - {program.name for program in suite.programs}):
        raise UsageError(f"the suite {suite.name} has no program {', '.join(unknown)}")
    ready = []
    needed: set[str] = set()
    for program in suite.programs:
        if only and program.name not in only:
            continue
        if lack := missing(program):
            needed.update(lack.packages)
            wanted = ", ".join([*lack.packages, *lack.files])
            report(f"SKIPPED {program.name}: not installed: {wanted}")
            continue
        prepare(program, report)
        ready.append(as_program(program))
    mend = f"apt-get install {' '.join(sorted(needed))}" if needed else ""
    if not ready:
        raise MissingError(f"no program of the suite {suite.name} can run here", mend)
    if mend:
        report(f"to run the skipped programs, too: {mend}")
    return ready
