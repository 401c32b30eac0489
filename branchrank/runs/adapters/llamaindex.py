"""LlamaIndex: retrievers, a retriever followed by node postprocessors, and query engines.

1. A retriever's ``retrieve`` is called, then each postprocessor (a reranker, a filter). A list is a retriever
   followed by its postprocessors. Of a query engine, the retriever and the postprocessors are used, and no
   answer is written.
2. A retriever with ``similarity_top_k`` is asked for at least k nodes. Postprocessors keep their own limits.
3. LLM calls are read from LlamaIndex's instrumentation events. Where a model reports no usage, the tokens are
   estimated from the texts.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from typing import Any

from branchrank.core.errors import UsageError
from branchrank.core.records import Answer, LLMUse
from branchrank.runs.adapters import Adapter, Retriever, documents, no_options, passage, unusable
from branchrank.search.llm.request import estimate_tokens


class LlamaIndexAdapter(Adapter):
    """Retrievers of LlamaIndex, with node postprocessors."""

    name = "llamaindex"
    package = "llama_index"
    types = (
        "llama_index.core.base.base_retriever:BaseRetriever",
        "llama_index.core.base.base_query_engine:BaseQueryEngine",
    )
    made_of = "a LlamaIndex retriever, a list of a retriever and its postprocessors, or a query engine"

    def owns(self, thing: object) -> bool:
        """Return whether ``thing`` is a retriever or query engine, or a list that begins with a retriever."""
        return super().owns(thing[0] if isinstance(thing, list) and thing else thing)

    def wrap(self, thing: Any, options: Mapping[str, str]) -> Retriever:
        """Return a retriever that calls ``thing``. Raises UsageError for an engine without a retriever."""
        no_options(self, options)
        if isinstance(thing, list):
            return _Retriever(thing[0], thing[1:])
        retriever = getattr(thing, "retriever", thing)
        if not hasattr(retriever, "retrieve"):
            raise UsageError(
                f"the query engine {type(thing).__name__} has no retriever", remedy="pass a retriever"
            )
        return _Retriever(retriever, getattr(thing, "_node_postprocessors", []))


class _Retriever(Retriever):
    def __init__(self, retriever: Any, postprocessors: list[Any]) -> None:
        self.retriever = copy.copy(retriever)  # its similarity_top_k is changed
        self.postprocessors = postprocessors
        _handler()  # imported before a query is timed; not an attribute, so that this object can be pickled

    def retrieve(self, query: str, k: int) -> Answer:
        from llama_index.core.instrumentation import root_dispatcher
        from llama_index.core.schema import QueryBundle

        bundle, calls = QueryBundle(query), _handler()()
        own = getattr(self.retriever, "similarity_top_k", None)
        if isinstance(own, int) and own < k:
            self.retriever.similarity_top_k = k
        before = root_dispatcher.event_handlers
        root_dispatcher.event_handlers = [*before, calls]
        try:
            nodes = self.retriever.retrieve(bundle)
            for each in self.postprocessors:
                nodes = each.postprocess_nodes(nodes, query_bundle=bundle)
        except AttributeError as error:  # LlamaIndex reads the nodes before it returns them
            if error.name != "node":
                raise
            returned = f"a list of {type(error.obj).__name__}"
            raise unusable(returned, "a list of NodeWithScore") from error
        finally:
            root_dispatcher.event_handlers = before
        return Answer(
            hits=[
                passage(each.node.get_content(), each.node.metadata, score=each.score, key=each.node.node_id)
                for each in documents(nodes, "node", "NodeWithScore")
            ],
            calls=calls.made,
        )


@cache
def _handler() -> type[Any]:
    """Return the class of the event handler, which collects the LLM calls of one query."""
    from llama_index.core.callbacks.token_counting import get_tokens_from_response
    from llama_index.core.instrumentation.event_handlers import BaseEventHandler
    from llama_index.core.instrumentation.events import llm as events
    from pydantic import Field

    class LlamaIndexCalls(BaseEventHandler):  # type: ignore[misc]
        started: dict[str, Any] = Field(default_factory=dict)
        made: list[LLMUse] = Field(default_factory=list)

        def handle(self, event: Any, **more: Any) -> None:
            if isinstance(event, events.LLMChatStartEvent | events.LLMCompletionStartEvent):
                self.started[event.span_id] = event
            elif isinstance(event, events.LLMChatEndEvent | events.LLMCompletionEndEvent):
                begun = self.started.pop(event.span_id, None)
                prompt = getattr(event, "prompt", None) or "\n".join(map(str, getattr(event, "messages", ())))
                sent, answered = get_tokens_from_response(event.response)
                answer = getattr(event.response, "text", None) or str(event.response)
                model = begun.model_dict if begun else {}
                waited = (event.timestamp - begun.timestamp).total_seconds() if begun else 0.0
                self.made.append(
                    LLMUse(
                        model=str(model.get("model") or model.get("model_name") or ""),
                        prompt_tokens=sent or estimate_tokens(prompt),
                        completion_tokens=answered if sent else estimate_tokens(answer),
                        reported=bool(sent),
                        latency_ms=1000.0 * waited,
                    )
                )

    return LlamaIndexCalls


LLAMAINDEX = LlamaIndexAdapter()
