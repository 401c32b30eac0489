"""Plan a benchmark (from predictors, an experiment file or an interrupted run), and run it."""

from __future__ import annotations

from branchrank.bench.benchmark import BenchmarkOptions, run_plan
from branchrank.bench.estimate import PlanEstimate, estimate_plan
from branchrank.bench.plan import Plan, check_plan, plan_from_experiment, plan_from_names
from branchrank.bench.predictors import BenchmarkPredictor, predictor_of
from branchrank.bench.resume import RunAccess, plan_from_run
from branchrank.bench.seal import Seal, seal_plan

__all__ = [
    "BenchmarkOptions",
    "BenchmarkPredictor",
    "Plan",
    "PlanEstimate",
    "RunAccess",
    "Seal",
    "check_plan",
    "estimate_plan",
    "plan_from_experiment",
    "plan_from_names",
    "plan_from_run",
    "predictor_of",
    "run_plan",
    "seal_plan",
]
