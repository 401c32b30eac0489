"""LangChain: retrievers, and other runnables that return a list of documents.

1. ``invoke`` is called with the query. A vector store's retriever (``search_kwargs["k"]``) and retrievers
   with a field ``k`` are asked for at least k documents; others return as many as their owner set.
2. A callback sees the LLM calls inside the retriever, also where the retriever does not pass its callbacks
   on. Where a model reports no usage, the tokens are estimated from the texts.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache
from typing import Any

from branchrank.core.records import Answer, LLMUse
from branchrank.runs.adapters import Adapter, Retriever, documents, no_options, passage
from branchrank.search.llm.request import estimate_tokens

#: The calls of the query that is being answered. ``None`` if LangChain is used outside of a retriever.
_CALLS: ContextVar[Any] = ContextVar("branchrank_langchain_calls", default=None)


class LangChainAdapter(Adapter):
    """Retrievers of LangChain."""

    name = "langchain"
    package = "langchain_core"
    types = ("langchain_core.runnables.base:Runnable",)
    made_of = "a LangChain retriever, or a class or function that makes one"

    def wrap(self, thing: Any, options: Mapping[str, str]) -> Retriever:
        """Return a retriever that invokes ``thing``."""
        no_options(self, options)
        return _Retriever(thing)


class _Retriever(Retriever):
    def __init__(self, runnable: Any) -> None:
        self.runnable = runnable
        _handler()  # imported before a query is timed; not an attribute, so that this object can be pickled

    def retrieve(self, query: str, k: int) -> Answer:
        calls = _handler()()
        before = _CALLS.set(calls)
        try:
            found = documents(_asking(self.runnable, k).invoke(query), "page_content", "LangChain Document")
        finally:
            _CALLS.reset(before)
        return Answer(
            hits=[
                passage(
                    each.page_content,
                    each.metadata,
                    score=each.metadata.get("score", each.metadata.get("relevance_score")),
                    key=each.id,
                )
                for each in found
            ],
            calls=calls.made,
        )


def _asking(runnable: Any, k: int) -> Any:
    """Return the retriever, changed to return at least k documents if there is one way to set that."""
    searched = getattr(runnable, "search_kwargs", None)
    if isinstance(searched, dict):
        return runnable.model_copy(update={"search_kwargs": {**searched, "k": max(k, searched.get("k", k))}})
    own = getattr(runnable, "k", None)
    if isinstance(own, int) and own < k and hasattr(runnable, "model_copy"):
        return runnable.model_copy(update={"k": k})
    return runnable


@cache
def _handler() -> type[Any]:
    """Return the class of the callback, which LangChain calls in every context in which ``_CALLS`` is set."""
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.tracers.context import register_configure_hook

    class LangChainCalls(BaseCallbackHandler):  # type: ignore[misc]
        def __init__(self) -> None:
            self.started: dict[object, tuple[float, str, str]] = {}
            self.made: list[LLMUse] = []

        def on_llm_start(self, serialized: Any, prompts: Any, *, run_id: Any, **more: Any) -> None:
            model = str((more.get("metadata") or {}).get("ls_model_name") or "")
            self.started[run_id] = (time.perf_counter(), model, "\n".join(prompts))

        def on_chat_model_start(self, serialized: Any, messages: Any, *, run_id: Any, **more: Any) -> None:
            texts = [str(each.content) for batch in messages for each in batch]
            self.on_llm_start(serialized, texts, run_id=run_id, **more)

        def on_llm_end(self, response: Any, *, run_id: Any, **more: Any) -> None:
            self._add(run_id, response, "ok")

        def on_llm_error(self, error: BaseException, *, run_id: Any, **more: Any) -> None:
            self._add(run_id, None, type(error).__name__)

        def _add(self, run_id: object, response: Any, outcome: str) -> None:
            begun, model, prompt = self.started.pop(run_id)
            first = response.generations[0][0] if response and response.generations[0] else None
            message, text = getattr(first, "message", None), getattr(first, "text", "")
            usage: dict[str, Any] = getattr(message, "usage_metadata", None) or {}
            summed = (getattr(response, "llm_output", None) or {}).get("token_usage") or {}
            sent: Any = usage.get("input_tokens", summed.get("prompt_tokens"))
            answered: Any = usage.get("output_tokens", summed.get("completion_tokens"))
            reported = sent is not None and answered is not None
            self.made.append(
                LLMUse(
                    model=str(getattr(message, "response_metadata", {}).get("model_name") or model),
                    prompt_tokens=sent if reported else estimate_tokens(prompt),
                    completion_tokens=answered if reported else estimate_tokens(text),
                    cached_tokens=(usage.get("input_token_details") or {}).get("cache_read") or 0,
                    reported=reported,
                    latency_ms=1000.0 * (time.perf_counter() - begun),
                    outcome=outcome,
                )
            )

    register_configure_hook(_CALLS, inheritable=True)
    return LangChainCalls


LANGCHAIN = LangChainAdapter()
