"""`tare.trace`: the heap trace of one run."""

from __future__ import annotations

from pathlib import Path

from tare.base import interrupts
from tare.campaign.session import programs_of
from tare.campaign.watching import Watcher
from tare.heap_traces.trace import Trace, is_trace, open_trace
from tare.memory_managers import manager as managers_module
from tare.memory_managers import suitable
from tare.observers import conditions, tracing
from tare.observers.asked import Asked
from tare.programs.program import check_program
from tare.records.results import default_folder
from tare.records.runs import Limits
from tare.studykit.recording.request import Recording
from tare.studykit.request import answers


@answers(Recording)
def trace(request: Recording) -> Trace:
    """The heap trace of one run of ``program``, in the new folder ``folder``.

    The trace of a run that failed is there as well: ``meta["complete"]`` is then false, and
    ``meta["status"]`` and ``meta["reason"]`` say how it ended. On Ctrl-C what was recorded is kept,
    too. ``replace`` allows to replace a trace that is in ``folder``.
    """
    what = request.what or Asked()
    tracing.require_observer(what)
    (chosen,) = programs_of(request.program)
    check_program(chosen)
    resolved = managers_module.resolve(request.manager)
    suitable.check([chosen], [resolved], "tare trace")
    conditions.check([resolved], request.limits or Limits())
    name = default_folder("trace", Path(chosen.argv[0]).name)
    target = Path(request.folder) if request.folder else name.with_name(f"{name.name}.tare")
    tracing.refuse_occupied(target, replace_trace=request.replace)
    watcher = request.watcher or Watcher()
    watcher.note("recording one run")
    try:
        with interrupts.termination_as_interrupt():
            wanted = tracing.Wanted(target, what, watcher.note)
            tracing.run_once(chosen, resolved, request.limits or Limits(), wanted=wanted)
    except KeyboardInterrupt:
        if is_trace(target):
            watcher.note(f"what was recorded so far is in {target}")
        raise
    return open_trace(target)
