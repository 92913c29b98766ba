"""The breakdown of a program's instructions by component of storage management.

The instrument counts how often each instruction is executed (``executions``). A runtime is
described by one file of ``runtimes/`` (``descriptor``), which one classifier reads (``classifier``,
on ``patterns`` and ``allocation``); ``run`` puts them together for a run.
"""
