"""Haystack: pipelines, and single components that answer a query.

1. The query goes to every open text input named ``query``, ``text`` or ``question``. The result is the output
   ``documents`` of the component that no other component with documents follows. Options name them instead:
   ``haystack:rag:pipeline:query=embedder.text:documents=ranker.documents``. A component is run in a pipeline
   of its own.
2. Retrievers, rankers and joiners with a ``top_k`` below k are asked for k documents.
3. LLM calls are read from the ``usage`` in the metadata of generators' replies. Haystack does not say how
   long a call took, so the wait for an LLM is part of the computing time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from branchrank.core.errors import BranchRankError, UsageError
from branchrank.core.records import Answer, LLMUse
from branchrank.runs.adapters import Adapter, Retriever, documents, no_options, passage

#: The inputs that take the query, and those that take a list of queries.
_QUERIES = {"query": False, "text": False, "question": False, "queries": True}
_DOCUMENTS = "documents"


class HaystackAdapter(Adapter):
    """Pipelines and components of Haystack."""

    name = "haystack"
    package = "haystack"
    types = ("haystack.core.pipeline.base:PipelineBase",)
    made_of = "a Haystack pipeline or component, or a class or function that makes one"

    def owns(self, thing: object) -> bool:
        """Return whether ``thing`` is a pipeline or an instance of a component's class."""
        return super().owns(thing) or (hasattr(thing, "__haystack_input__") and not isinstance(thing, type))

    def wrap(self, thing: Any, options: Mapping[str, str]) -> Retriever:
        """Return a retriever that runs ``thing``. Raises UsageError if an input or output is not found."""
        no_options(self, options, known=("query", _DOCUMENTS))
        if not super().owns(thing):
            from haystack import Pipeline

            alone, thing = thing, Pipeline()
            thing.add_component("retriever", alone)
        return _Retriever(thing, options)


class _Retriever(Retriever):
    def __init__(self, pipeline: Any, options: Mapping[str, str]) -> None:
        self.pipeline = pipeline
        inputs = pipeline.inputs()
        named = [each.partition(".")[::2] for each in options.get("query", "").split(",") if each]
        self.queries = named or list(_open_queries(inputs))
        if not self.queries or any(socket not in inputs.get(name, {}) for name, socket in self.queries):
            known = ", ".join(f"{name}.{socket}" for name, sockets in inputs.items() for socket in sockets)
            raise UsageError(
                f"the Haystack pipeline has no input {options.get('query') or 'for the query'} among {known}",
                remedy="name it after the pipeline, such as haystack:MODULE:NAME:query=COMPONENT.INPUT",
            )
        self.output = _output(pipeline, options.get(_DOCUMENTS, ""))
        self.limited = [name for name, sockets in inputs.items() if "top_k" in sockets]
        outputs = pipeline.outputs(include_components_with_connected_outputs=True)
        self.writers = {name for name, sockets in outputs.items() if "replies" in sockets}
        try:
            pipeline.validate_input(self._data("", 1))
        except ValueError as error:
            raise UsageError(
                f"the Haystack pipeline can't run with a query alone: {error}",
                remedy="give the component its other inputs when you make it",
            ) from error

    def retrieve(self, query: str, k: int) -> Answer:
        from haystack.core.errors import PipelineRuntimeError

        name, socket = self.output
        try:
            found = self.pipeline.run(self._data(query, k), include_outputs_from={name, *self.writers})
        except PipelineRuntimeError as error:  # the component is in the second line
            raise BranchRankError(" ".join(str(error).split())) from error
        returned = found.get(name, {}).get(socket)
        if returned is None:
            raise BranchRankError(f"the Haystack component {name!r} did not run, or gave no {socket}")
        return Answer(
            hits=[
                passage(each.content or "", each.meta, score=each.score, key=each.id)
                for each in documents(returned, "content", "Haystack Document")
            ],
            calls=[use for writer in self.writers for use in _calls(found.get(writer, {}))],
        )

    def _data(self, query: str, k: int) -> dict[str, dict[str, Any]]:
        """Return the inputs of a run."""
        data: dict[str, dict[str, Any]] = {}
        for name, socket in self.queries:
            data.setdefault(name, {})[socket] = [query] if _QUERIES.get(socket) else query
        for name in self.limited:
            own = getattr(self.pipeline.get_component(name), "top_k", None)
            if isinstance(own, int) and own < k:
                data.setdefault(name, {})["top_k"] = k
        return data


def _open_queries(inputs: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    for name, sockets in inputs.items():
        yield from ((name, socket) for socket in sockets if socket in _QUERIES)


def _output(pipeline: Any, wanted: str) -> tuple[str, str]:
    """Return the component and the output with the retrieved documents."""
    import networkx

    outputs = pipeline.outputs(include_components_with_connected_outputs=True)
    name, _, socket = wanted.partition(".")
    if wanted and (socket or _DOCUMENTS) in outputs.get(name, {}):
        return name, socket or _DOCUMENTS
    ranked = {each for each, sockets in outputs.items() if _DOCUMENTS in sockets}
    last = [each for each in sorted(ranked) if not networkx.descendants(pipeline.graph, each) & ranked]
    if wanted or len(last) != 1:
        doubt = "and it is not clear which are the result" if ranked else "so there is nothing to compare"
        raise UsageError(
            f"the Haystack pipeline returns documents from {', '.join(sorted(ranked)) or 'no component'}, "
            f"{f'not from {wanted!r}' if wanted else doubt}",
            remedy="name one after the pipeline, such as haystack:MODULE:NAME:documents=COMPONENT.documents",
        )
    return last[0], _DOCUMENTS


def _calls(output: Mapping[str, Any]) -> Iterator[LLMUse]:
    """Yield the calls in a generator's output, for those replies whose metadata has the usage."""
    replies = output.get("replies") or ()
    for meta in output.get("meta") or [getattr(reply, "meta", {}) for reply in replies]:
        usage = meta.get("usage") or {}
        if "prompt_tokens" in usage and "completion_tokens" in usage:
            yield LLMUse(
                model=str(meta.get("model") or ""),
                prompt_tokens=usage["prompt_tokens"],
                completion_tokens=usage["completion_tokens"],
            )


HAYSTACK = HaystackAdapter()
