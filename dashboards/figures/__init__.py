"""Pure functions from published frames to Plotly figures, for pages, notebooks and metadata.

Each has a twin that ends in `_spec` and gives the figure as plain data, unvalidated: a page with
thousands of jobs writes those, since Plotly's validation costs milliseconds per figure.
"""

from dashboards.figures.by_attempt import attempts, attempts_spec
from dashboards.figures.by_day import days, days_spec
from dashboards.figures.by_source import ranking, ranking_spec

__all__ = ["attempts", "attempts_spec", "days", "days_spec", "ranking", "ranking_spec"]
