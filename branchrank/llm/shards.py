"""Divide LLM calls into shards. A shard is a list of independent calls that any worker can make.

1. The process that opened a gateway uses this gateway for its own calls. Each worker opens another gateway to
   the same model, with the workspace's decision cache, and makes the calls of its shard concurrently.
2. The calls that workers make are added to the command's ledger, in the order of the requests.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from branchrank.execution import Executor
from branchrank.io.progress import no_notice
from branchrank.llm.gateway import Answer, Gateway
from branchrank.llm.request import LLMReply, LLMRequest
from branchrank.llm.session import open_gateway
from branchrank.records import Record
from branchrank.settings import LLMSettings, Resolved

T = TypeVar("T")


class Source(Record, frozen=True, kw_only=True):
    """The arguments with which a worker calls :func:`~branchrank.llm.session.open_gateway`."""

    settings: Resolved
    cache_path: Path
    base_url: str


class AskingTask(Generic[T]):
    """A task that makes the calls in a shard and parses the replies into one ``Answer`` per request.

    ``llm`` is the open gateway of this process. ``source`` contains the arguments with which a worker opens a
    gateway. If ``source`` is ``None``, the task can run only in this process. ``read`` parses a reply.
    ``read`` must be defined at the top level of a module, so that it can be pickled.
    """

    def __init__(self, llm: Gateway, read: Callable[[LLMReply], T], source: Source | None) -> None:
        self._llm: Gateway | None = llm
        self._model = llm.model
        self._read = read
        self._source = source

    @property
    def needs(self) -> tuple[Path, ...]:
        """The paths of the cassette to replay and of the price table, if any."""
        return () if self._source is None else files_of(self._source.settings)

    def __getstate__(self) -> dict[str, object]:
        if self._source is None:
            raise TypeError("a task without a source can't be sent to another process")
        source = msgspec.structs.replace(
            self._source,
            settings=with_relative_files(self._source.settings),
            cache_path=Path(os.path.relpath(self._source.cache_path)),
        )
        return {**self.__dict__, "_llm": None, "_source": source}

    @contextmanager
    def open(self) -> Iterator[Callable[[Sequence[LLMRequest]], list[Answer[T]]]]:
        """Yield a function that takes a list of requests and returns their answers."""
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
    """Uses an executor to make many independent calls to one model.

    ``at_once`` is the maximum number of concurrent calls.
    """

    def __init__(
        self, executor: Executor, llm: Gateway, read: Callable[[LLMReply], T], source: Source | None
    ) -> None:
        self._executor = executor
        self._llm = llm
        self._task = AskingTask(llm, read, source)
        self.at_once = llm.concurrency * executor.workers

    def ask_all(self, requests: Sequence[LLMRequest]) -> list[Answer[T]]:
        """Make the calls. Return the answers in the order of the requests."""
        size = len(requests) if self._executor.in_process else self._llm.concurrency
        shards = [requests[start : start + size] for start in range(0, len(requests), size or 1)]
        answers = []
        for answer in self._executor.map(self._task, shards):
            if not self._executor.in_process:
                self._llm.ledger.add(answer.call)
            answers.append(answer)
        return answers


def files_of(settings: Resolved) -> tuple[Path, ...]:
    """Return the paths of the replay cassette and the price table that the LLM settings select."""
    llm = settings.part(LLMSettings)
    return tuple(Path(file) for file in (llm.replay, llm.price_table) if file)


def with_relative_files(settings: Resolved) -> Resolved:
    """Return a copy of the settings in which the paths of the cassette and the price table are relative.

    The paths are relative to the working directory, because every worker runs in this directory or in a copy
    of this directory.
    """
    llm = settings.part(LLMSettings)
    files = {"replay": llm.replay, "price_table": llm.price_table}
    relative = {name: os.path.relpath(path) for name, path in files.items() if path}
    parts = {**settings.parts, LLMSettings.section: msgspec.structs.replace(llm, **relative)}
    return msgspec.structs.replace(settings, parts=parts)
