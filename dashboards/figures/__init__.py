"""Pure functions from published frames to Plotly figures, for pages, notebooks and metadata.

Each has a twin that ends in `_spec` and gives the figure as plain data, unvalidated: a page with
thousands of jobs writes those, since Plotly's validation costs milliseconds per figure.
"""

from dashboards.figures.by_attempt import attempts, attempts_spec
from dashboards.figures.by_cause import causes, causes_spec
from dashboards.figures.by_day import days, days_spec, losses, losses_spec
from dashboards.figures.by_recovery import recoveries, recoveries_spec
from dashboards.figures.by_source import ranking, ranking_spec
from dashboards.figures.by_spread import spread, spread_spec

__all__ = [
    "attempts", "attempts_spec", "causes", "causes_spec", "days", "days_spec", "losses",
    "losses_spec", "ranking", "ranking_spec", "recoveries", "recoveries_spec", "spread",
    "spread_spec",
]  # fmt: skip
