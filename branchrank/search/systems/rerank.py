"""Reranking of candidates by an LLM (listwise or pointwise) or by a cross-encoder.

1. The first stage sorts the candidates by fused score. Ties are broken by evidence, then by lexical score,
   then by id. A candidate's evidence is its score in the list of the first branch with ``expand`` set. If no
   branch has ``expand`` set, the evidence is the score in the list of the first branch.
2. The listwise method shows all candidates to the LLM in one prompt, in first-stage order or in a seeded
   random order. If the prompt would exceed the context budget, the candidates are divided between two calls.
   The replies from two calls are merged by rank, with ties in first-stage order.
3. The pointwise method makes one call per candidate, and sorts the candidates by the log-odds of the reply
   "yes" versus "no".
4. The cross-encoder method scores pairs of the query and a candidate's text with a sentence-transformers
   model.
5. Candidates that the reranker omits come last, in first-stage order. If the fusion weight is below 1,
   weighted RRF fuses the reranker's order with the first-stage order.
6. If an LLM call fails, the candidates are sorted by evidence, lexical score and id, and the result contains
   the reason why the call failed.

The order of the candidates does not depend on the number of requested hits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from threading import Lock
from typing import Any

from branchrank.core.errors import ModelError, Remedy
from branchrank.core.execution import limit_torch
from branchrank.core.io import preserved_random_state, preserved_start_method
from branchrank.core.ranked_lists import rescore
from branchrank.core.records import Node, Scored
from branchrank.core.spec import Unit
from branchrank.index.embedders.sentence_transformers import require_library
from branchrank.index.reader import Index
from branchrank.search.llm.gateway import Gateway, GatewayReply
from branchrank.search.llm.prompts import RANKED, pointwise_messages, rerank_messages, yes_log_odds
from branchrank.search.llm.request import LLMReply, LLMRequest
from branchrank.search.ranking.fusion import rrf
from branchrank.search.systems.branches import label
from branchrank.search.systems.llm_choice import (
    BODY_CHARS,
    POINTWISE_CHARS,
    ChoiceTask,
    Option,
    ask_pages,
    entries,
    fitted,
    shuffled,
    tokens,
)
from branchrank.search.systems.query import Asked
from branchrank.search.systems.sources import Sources

STAGE = "rerank"
_LOGPROBS = 20
_PREDICTING = Lock()
_PAIR_CHARS = 4000


class RerankCandidate(Option, frozen=True, kw_only=True):
    """A candidate for the reranker. Missing scores are 0.0."""

    fused_score: float = 0.0
    evidence: float = 0.0
    lexical_score: float = 0.0


def rerank_stage(
    asked: Asked, sources: Sources, candidates: Sequence[Scored], lists: Mapping[str, Sequence[Scored]]
) -> Sequence[Scored]:
    """Return a query's reranked candidates.

    ``lists`` contains the lists that were fused. If the reranker fails and a branch has ``expand`` set, the
    candidates are sorted by that branch's scores, then by lexical score. If the reranker fails and no branch
    has ``expand`` set, the order of the candidates does not change.
    """
    system, keys = asked.system, [entry.key for entry in candidates]
    gathering = [branch for branch in system.branches if branch.expand is not None]
    evidence = dict(lists.get(label((gathering or system.branches)[0]), ()))
    lexical = sources.own_scores(asked.query.text, keys) if system.unit == "node" else {}
    pool = [_candidate(sources.index, system.unit, entry, evidence, lexical) for entry in candidates]
    order, fault = rerank(pool, asked)
    if fault and not gathering:
        return candidates
    return rescore(candidates, order)


def _candidate(
    index: Index, unit: Unit, entry: Scored, evidence: Mapping[str, float], lexical: Mapping[str, float]
) -> RerankCandidate:
    found = index.tree.node(entry.key) if unit == "node" else index.chunks[entry.key]
    node = found if isinstance(found, Node) else index.tree.nodes.get(found.node_id)
    return RerankCandidate(
        id=entry.key,
        heading=found.breadcrumb or (node.title if node is not None else ""),
        body=found.text,
        fused_score=entry.score,
        evidence=evidence.get(entry.key, 0.0),
        lexical_score=lexical.get(entry.key, 0.0),
    )


def rerank(candidates: Sequence[RerankCandidate], asked: Asked) -> tuple[Sequence[str], str | None]:
    """Sort the candidates by their relevance to the query.

    Return the ids of all candidates, best first, and the reason why a call failed, or ``None``. After a
    failed call, the ids are in the fallback order. Prompts, calls and the failure are added to the trace.
    Raises :class:`ModelError` if the cross-encoder is not available. LLM calls raise the errors of
    :meth:`Gateway.ask`.
    """
    settings = asked.system.rerank
    # The order after a failed call is also the order of candidates with equal fused scores.
    by_evidence = sorted(candidates, key=lambda each: (-each.evidence, -each.lexical_score, each.id))
    first = sorted(by_evidence, key=lambda each: -each.fused_score)
    if len(first) < 2:
        return [candidate.id for candidate in first], None
    order: Sequence[str]
    fault = None
    if settings.method == "cross-encoder":
        order = _by_cross_encoder(first, asked.query.text, settings.cross_encoder)
    else:
        assert asked.gateway is not None
        order, fault = (_pointwise if settings.method == "pointwise" else _listwise)(
            first, asked, asked.gateway
        )
    if fault:
        asked.trace.fallbacks.append(f"rerank: {fault}")
        return [candidate.id for candidate in by_evidence], fault
    return _combined(first, order, settings.fusion_weight), None


def batches(
    pool: Sequence[RerankCandidate], budget_tokens: int, *, order: Sequence[RerankCandidate]
) -> list[list[RerankCandidate]]:
    """Divide the candidates, in the given order, into one or two pages whose prompts fit the token budget.

    All candidates are put on one page if the first ``BODY_CHARS[0]`` characters of each text fit. If the
    candidates do not fit on one page, they are divided between two pages, and their texts may be shortened.
    If even the headings do not fit on two pages, candidates at the end of ``pool`` are dropped.
    """
    kept = list(pool)
    while True:
        ids = {candidate.id for candidate in kept}
        options = [candidate for candidate in order if candidate.id in ids]
        if tokens(entries(options, BODY_CHARS[0])) <= budget_tokens:
            return [options]
        halves = [options[0::2], options[1::2]]
        if len(options) <= 2 or all(fitted(half, budget_tokens)[1] for half in halves):
            return [half for half in halves if half]
        kept.pop()


def _listwise(
    first: Sequence[RerankCandidate], asked: Asked, llm: Gateway
) -> tuple[Sequence[str], str | None]:
    settings, query, context = asked.system.rerank, asked.query.text, asked.context
    order = shuffled(first, query, context) if settings.candidate_order == "shuffled" else list(first)
    budget = settings.context_tokens - llm.max_tokens
    pages = batches(first, budget, order=order)
    task = ChoiceTask(stage=STAGE, build=partial(rerank_messages, query), most=RANKED, budget_tokens=budget)
    answers = ask_pages(llm, pages, task, context)
    place = {candidate.id: position for position, candidate in enumerate(first)}
    chosen = [(rank, place[key], key) for each in answers for rank, key in enumerate(each.value or ())]
    return [key for _, _, key in sorted(chosen)], _traced(asked, pages, answers)


def _pointwise(
    first: Sequence[RerankCandidate], asked: Asked, llm: Gateway
) -> tuple[Sequence[str], str | None]:
    """Make one LLM call per candidate."""
    requests = []
    for candidate in first:
        (shown,) = entries([candidate], POINTWISE_CHARS)
        request = LLMRequest(
            stage=STAGE,
            messages=pointwise_messages(asked.query.text, shown),
            max_tokens=1,
            logprobs=_LOGPROBS,
            context=asked.context,
        )
        requests.append((request, _yes))
    # Wait for the first call, so that only one call is wasted if the server has no log-probabilities.
    answers = [llm.ask(*requests[0])]
    if answers[0].fault is None:
        answers += llm.ask_all(requests[1:])
    fault = _traced(asked, [[candidate] for candidate in first[: len(answers)]], answers)
    return [] if fault else _by_score(first, [each.value or 0.0 for each in answers]), fault


def _traced(
    asked: Asked, pages: Sequence[Sequence[RerankCandidate]], answers: Sequence[GatewayReply[Any]]
) -> str | None:
    """Add the candidates of each prompt and the calls to the trace, and return the first call's failure."""
    asked.trace.calls += [answer.call for answer in answers]
    for page in pages:
        asked.trace.add("shown", asked.system.unit, [Scored(candidate.id, 0.0) for candidate in page])
    return next((answer.fault for answer in answers if answer.fault), None)


def _yes(reply: LLMReply) -> float:
    return yes_log_odds(reply.logprobs[0] if reply.logprobs else {})


def _by_score(first: Sequence[RerankCandidate], scores: Sequence[float]) -> tuple[str, ...]:
    """Return the ids of the candidates sorted by score, with ties in first-stage order."""
    places = sorted(range(len(first)), key=lambda place: (-scores[place], place))
    return tuple(first[place].id for place in places)


def _combined(first: Sequence[RerankCandidate], order: Sequence[str], weight: float) -> tuple[str, ...]:
    """Fuse the reranker's order with the first-stage order. ``weight`` is the reranker's weight."""
    ids = [candidate.id for candidate in first]
    orders = {"first": ids, "reranked": order}
    branches = {name: [Scored(key, 0.0) for key in keys] for name, keys in orders.items()}
    scores = dict(rrf(branches, weights={"first": 1.0 - weight, "reranked": weight}))
    places = {key: place for place, key in enumerate(ids)}
    return tuple(sorted(ids, key=lambda key: (-scores.get(key, 0.0), places[key])))


def _by_cross_encoder(first: Sequence[RerankCandidate], query: str, model: str) -> tuple[str, ...]:
    texts = [f"{c.heading}\n{c.body}"[:_PAIR_CHARS] for c in first]
    pairs = [(query, text) for text in texts]
    # Loading a model is not thread-safe, and neither is the fast tokenizer.
    with _PREDICTING:
        scores = cross_encoder(model).predict(pairs, show_progress_bar=False)
    return _by_score(first, [float(score) for score in scores])


@lru_cache(maxsize=2)
def cross_encoder(model: str) -> Any:
    """Load a sentence-transformers CrossEncoder.

    Only safetensors weights are loaded, and code in the model's repository is not run. Raises
    :class:`ModelError` if the model can't be loaded.
    """
    require_library(f"the cross-encoder {model}")
    with preserved_random_state(), preserved_start_method():
        from sentence_transformers import CrossEncoder

    limit_torch()
    try:
        return CrossEncoder(
            model, device="cpu", trust_remote_code=False, model_kwargs={"use_safetensors": True}
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ModelError(
            f"cannot load the cross-encoder {model!r}: {str(error).splitlines()[0]}",
            remedy=Remedy(
                "give a model name, or a folder with model.safetensors, with {}", "--hybrid-cross-encoder"
            ),
        ) from None
