"""`tare weigh`: the whole bill of one program, on one page."""

from __future__ import annotations

import click

from tare.programs.program import Program
from tare.records.runs import Limits
from tare.studykit import options
from tare.studykit.answer import Answer, Output
from tare.studykit.budget import Effort
from tare.studykit.progress import TerminalWatcher
from tare.weighing.bill import failed, weigh

EPILOG = """\b
Examples:
  tare weigh -- gawk -f report.awk words.txt
  tare weigh --quick -i queries.sql -- sqlite3 my.db
  tare weigh --thorough -m glibc -m snmalloc -- ./render scene.pov
  tare weigh -- java -jar application.jar
"""


@click.command(epilog=EPILOG, context_settings={"allow_interspersed_args": False})
@options.manager_options
@click.option(
    "--quick",
    "effort",
    flag_value=Effort.QUICK.value,
    help="Within 20 seconds for a program that runs one: fewer managers, wider intervals.",
)
@click.option(
    "--thorough",
    "effort",
    flag_value=Effort.THOROUGH.value,
    help="As long as it takes to know each ratio of times within 1%.",
)
@options.run_options
@options.output_options
@options.program_argument
def command(
    program: Program,
    managers: tuple[str, ...],
    baseline: str,
    effort: str | None,
    seed: int | None,
    limits: Limits,
    output: Output,
) -> Answer:
    """What memory management costs PROGRAM, and what to change: every section on one page.

    Within two minutes for a program that runs one second; each section says what it will take and
    what it took.
    """
    results = weigh(
        program,
        managers,
        baseline=baseline,
        effort=Effort(effort) if effort else Effort.DEFAULT,
        seed=seed,
        limits=limits,
        folder=output.folder,
        watcher=TerminalWatcher(output.quiet),
    )
    return Answer(results, output, exit_code=int(failed(results)))
