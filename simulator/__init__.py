"""The fleet simulator: seeded logs of a fleet and, beside them, its true ledger."""

from simulator.fleet import Summary, simulate
from simulator.scenario import BASELINE, EXERCISE, OPTIMISED, SCENARIOS, Scenario

__all__ = ["BASELINE", "EXERCISE", "OPTIMISED", "SCENARIOS", "Scenario", "Summary", "simulate"]
