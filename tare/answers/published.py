"""What the papers' tables say, to stand beside what was measured."""

from __future__ import annotations

from tare.base.errors import UsageError
from tare.base.libraries import pl
from tare.base.native import PACKAGE


def published(exhibit: str = "") -> pl.DataFrame:
    """The figures of five papers, a row per program, manager and metric, in the units of
    ``summary`` and with the papers' names; docs/papers.md shows all. ``exhibit`` is one of the
    tables there, such as `detlefs-iv` or `sareen21-3.1`; without it the frame has a column
    ``exhibit``, too."""
    found = pl.read_csv(PACKAGE / "answers" / "published.csv", infer_schema=False)
    found = found.with_columns(pl.col("value").cast(pl.Float64), pl.col("manager").fill_null(""))
    if not exhibit:
        return found
    known = found["exhibit"].unique(maintain_order=True).to_list()
    if exhibit not in known:
        raise UsageError(f"no table '{exhibit}' is kept", f"known: {', '.join(known)}")
    return found.filter(pl.col("exhibit") == exhibit).drop("exhibit")
