"""LLM calls as a task over shards: a few independent calls, made by any worker.

1. The process that opened the gateway asks through it. A worker opens a gateway to the same model, with the
   decision cache of the workspace, and makes the calls of its shard at the same time.
2. The calls of workers are added to the ledger of the command, in the order of the requests.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from branchrank.execution import Executor
from branchrank.llm.gateway import Answer, Gateway
from branchrank.llm.request import LLMReply, LLMRequest
from branchrank.llm.session import open_gateway
from branchrank.progress import no_notice
from branchrank.records import Record
from branchrank.settings import LLMSettings, Resolved

T = TypeVar("T")


class Source(Record, frozen=True, kw_only=True):
    """What a worker opens a gateway with (:func:`~branchrank.llm.session.open_gateway`)."""

    settings: Resolved
    cache_path: Path
    base_url: str


class AskingTask(Generic[T]):
    """Makes the calls of a shard and reads their replies: for each request, one ``Answer``.

    ``llm`` is the open gateway of this process, and ``source`` what a worker opens its own with; without a
    source the task can only be run in this process. ``read`` is a function of a module.
    """

    def __init__(self, llm: Gateway, read: Callable[[LLMReply], T], source: Source | None) -> None:
        self._llm: Gateway | None = llm
        self._model = llm.model
        self._read = read
        self._source = source

    @property
    def needs(self) -> tuple[Path, ...]:
        """The cassette and the prices, if the settings name them."""
        return () if self._source is None else files_of(self._source.settings)

    def __getstate__(self) -> dict[str, object]:
        if self._source is None:
            raise TypeError("its LLM is open in this process only")
        source = msgspec.structs.replace(
            self._source,
            settings=with_relative_files(self._source.settings),
            cache_path=Path(os.path.relpath(self._source.cache_path)),
        )
        return {**self.__dict__, "_llm": None, "_source": source}

    @contextmanager
    def open(self) -> Iterator[Callable[[Sequence[LLMRequest]], list[Answer[T]]]]:
        """Yield a function from requests to their answers."""
        if self._llm is not None:
            yield self._work(self._llm)
            return
        assert self._source is not None
        source = self._source
        with open_gateway(source.settings, source.cache_path, source.base_url, self._model, no_notice) as (
            llm,
            _,
        ):
            yield self._work(llm)

    def _work(self, llm: Gateway) -> Callable[[Sequence[LLMRequest]], list[Answer[T]]]:
        return lambda requests: llm.ask_all([(request, self._read) for request in requests])


class Asker(Generic[T]):
    """Asks one model many independent questions, by an executor.

    ``at_once`` is the number of calls that can be under way at the same time.
    """

    def __init__(
        self, executor: Executor, llm: Gateway, read: Callable[[LLMReply], T], source: Source | None
    ) -> None:
        self._executor = executor
        self._llm = llm
        self._task = AskingTask(llm, read, source)
        self.at_once = llm.concurrency * executor.workers

    def ask_all(self, requests: Sequence[LLMRequest]) -> list[Answer[T]]:
        """Make the calls; the answers are in the order of the requests."""
        size = len(requests) if self._executor.in_process else self._llm.concurrency
        shards = [requests[start : start + size] for start in range(0, len(requests), size or 1)]
        answers = []
        for answer in self._executor.map(self._task, shards):
            if not self._executor.in_process:
                self._llm.ledger.add(answer.call)
            answers.append(answer)
        return answers


def files_of(settings: Resolved) -> tuple[Path, ...]:
    """The files that the LLM settings name: the cassette to replay and the price table."""
    llm = settings.part(LLMSettings)
    return tuple(Path(file) for file in (llm.replay, llm.price_table) if file)


def with_relative_files(settings: Resolved) -> Resolved:
    """The settings with those files relative to the working directory, which every worker has or copies."""
    llm = settings.part(LLMSettings)
    files = {"replay": llm.replay, "price_table": llm.price_table}
    relative = {name: os.path.relpath(path) for name, path in files.items() if path}
    parts = {**settings.parts, LLMSettings.section: msgspec.structs.replace(llm, **relative)}
    return msgspec.structs.replace(settings, parts=parts)
