"""Estimate the number of queries and the LLM costs of a plan before the plan is run (``--dry-run``)."""

from __future__ import annotations

from pathlib import Path

from branchrank.bench.experiment import PlannedSystem
from branchrank.bench.plan import Plan, check_plan
from branchrank.llm.ledger import PriceTable, read_prices
from branchrank.records import Record
from branchrank.settings import LLMSettings
from branchrank.systems.llm_choice import Estimate, estimate


class PredictorEstimate(Record, frozen=True, kw_only=True):
    """One predictor's number of queries in the quality pass, and upper bounds for its LLM calls and cost.

    ``index`` is empty if the predictor does not use an index. ``model`` is empty and ``llm`` is ``None`` if
    the predictor does not use an LLM. ``cost`` is ``None`` if the model's price is not known.
    """

    predictor: str
    queries: int
    index: str = ""
    model: str = ""
    llm: Estimate | None = None
    cost: float | None = None


class PlanEstimate(Record, frozen=True, kw_only=True):
    """The estimate for a plan, with one entry per predictor."""

    experiment: str
    questions: int
    predictors: tuple[PredictorEstimate, ...]
    prices: PriceTable | None = None


def estimate_plan(plan: Plan) -> PlanEstimate:
    """Check a plan, and estimate its number of queries and its LLM cost.

    No index is built, and no server is contacted.

    Raises the same errors as :func:`~branchrank.bench.plan.check_plan`.
    """
    questions = len(check_plan(plan))
    settings = plan.settings.part(LLMSettings)
    prices = read_prices(Path(settings.price_table)) if settings.price_table else None
    rows = []
    for each in plan.predictors:
        if isinstance(each, PlannedSystem):
            rows.append(_system(plan, each, questions, settings.completion_tokens, prices))
        else:
            rows.append(PredictorEstimate(predictor=each.name, queries=questions))
    return PlanEstimate(
        experiment=plan.experiment, questions=questions, predictors=tuple(rows), prices=prices
    )


def _system(
    plan: Plan, planned: PlannedSystem, questions: int, completion_tokens: int, prices: PriceTable | None
) -> PredictorEstimate:
    system = planned.system
    queries = questions * plan.repeats_of(system)
    if not system.asks_llm:
        return PredictorEstimate(predictor=system.name, queries=queries, index=planned.index)
    bound = estimate(system, queries, completion_tokens)
    spent = (bound.prompt_tokens, bound.completion_tokens)
    return PredictorEstimate(
        predictor=system.name,
        queries=queries,
        index=planned.index,
        model=system.llm.model,
        llm=bound,
        cost=prices.cost_of(system.llm.model, *spent) if prices is not None else None,
    )
