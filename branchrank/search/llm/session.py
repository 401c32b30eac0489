"""The budget, ledger, cassettes and LLM clients of one command, opened and closed together.

Many calls can be divided into shards. A shard is a list of independent calls that any worker can make. The
process that opened a gateway uses this gateway for its own calls. Each worker opens another gateway to the
same model, with the workspace's decision cache, and makes the calls of its shard concurrently. The calls that
workers make are added to the command's ledger, in the order of the requests.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import msgspec

from branchrank.core.errors import ArtifactError, Remedy, UsageError
from branchrank.core.execution import Executor
from branchrank.core.execution.executors import InProcess, check_engine, open_executor
from branchrank.core.io import Closing
from branchrank.core.io.keys import open_endpoint
from branchrank.core.io.printable import Redactor, environment_secrets
from branchrank.core.io.progress import Notify, no_notice
from branchrank.core.records import LLMCall, Record
from branchrank.core.settings import CacheSettings, LLMSettings, Resolved
from branchrank.core.settings.systems import NO_LLM_FLAGS, URL_FLAGS
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.search.llm.cassette import Cassette, DecisionCache, RedisDecisions
from branchrank.search.llm.client import ChatClient, UnreachableError, only_model
from branchrank.search.llm.gateway import Gateway, GatewayReply
from branchrank.search.llm.ledger import Budget, Ledger, PriceTable, Spent, read_prices, totals
from branchrank.search.llm.request import LLMReply, LLMRequest

T = TypeVar("T")

#: The model name to use if no model was given and the endpoint did not answer.
UNKNOWN_MODEL = "unknown"


class LLMSession(Closing):
    """A context manager that opens gateways with a shared budget, ledger and decision cache.

    ``cache_path`` is the file of the workspace's decision cache (``data/hybrid/cache/decisions.sqlite``), or
    ``None`` for no cache. If ``redis_url`` is given, the decision cache is stored in Redis. ``notify`` is
    called with a message if Redis fails or an endpoint does not answer. If ``may_fall_back`` is true and the
    ``on_failure`` setting is ``fallback``, calls to an endpoint that does not answer use their fallbacks. In
    all other cases, an endpoint that does not answer is an error.

    Raises :class:`UsageError` if the settings have both ``record`` and ``replay``. Also raises the same
    errors as :class:`Cassette` and :class:`~branchrank.core.io.key_values.RedisValues`.
    """

    def __init__(
        self,
        settings: LLMSettings,
        *,
        cache_path: Path | None = None,
        redis_url: str = "",
        notify: Notify = no_notice,
        environment: Mapping[str, str] | None = None,
        ledger: Ledger | None = None,
        may_fall_back: bool = False,
    ) -> None:
        if settings.record and settings.replay:
            raise UsageError(
                "--llm-record and --llm-replay can't be used together", remedy="remove one of the two flags"
            )
        self.settings = settings
        self.notify = notify
        #: What differs in the calls from the settings: base URLs, and parameters that a server refuses.
        self.notes: list[str] = []
        self._refuses = not may_fall_back or settings.on_failure == "refuse"
        self.environment = os.environ if environment is None else environment
        self.redact = Redactor(environment_secrets(self.environment))
        self.ledger = ledger or Ledger()
        self.budget = Budget(settings)
        self.prices: PriceTable | None = (
            read_prices(Path(settings.price_table)) if settings.price_table else None
        )
        self._cassette: Cassette | None = None
        self._cache: DecisionCache | None = None
        self._gateways: dict[tuple[str, str], Gateway] = {}
        self._recorded: dict[str, str] = {}
        with ExitStack() as opened:
            if settings.record or settings.replay:
                path = Path(settings.record or settings.replay)
                cassette = Cassette(path, readonly=bool(settings.replay), redact=self.redact)
                self._cassette = opened.enter_context(cassette)
            if cache_path is not None and not settings.replay:
                if redis_url:
                    self._cache = RedisDecisions(redis_url, redact=self.redact, notify=notify)
                else:
                    # The cache is in WORKSPACE/hybrid/cache. Links below WORKSPACE must not be followed.
                    self._cache = Cassette(cache_path, redact=self.redact, root=cache_path.parents[2])
                opened.callback(self._cache.close)
            self._open = opened.pop_all()

    def gateway(self, base_url: str, model: str, *, explicit: bool = False) -> Gateway:
        """Check that a model's endpoint answers, and return the gateway to the model.

        ``explicit`` is true if ``base_url`` comes from a command-line flag or an environment variable, and
        false if ``base_url`` comes from a file in the workspace. If ``model`` is empty, the endpoint (or, in
        a replay, the cassette) must have exactly one model.

        Raises :class:`UsageError` if ``base_url`` is empty or not an HTTP URL, or if calls to two endpoints
        with the same model name would be recorded in one cassette. Raises :class:`LLMError` if the endpoint
        does not answer, rejects the key or does not have the model, or if ``model`` is empty and the number
        of available models is not 1.
        """
        known = self._gateways.get((base_url, model))
        if known is None:
            client = None if self.settings.replay else self._client(base_url, model, explicit)
            known = self._gateways[base_url, model] = Gateway(
                self._recorded_model(model) if client is None else client.model,
                client,
                ledger=self.ledger,
                cassette=self._cassette,
                cache=self._cache,
                endpoint="" if client is None else client.endpoint.url,
                settings=self.settings,
            )
        return known

    def keep_failures(self, calls: Iterable[LLMCall]) -> None:
        """Do not make the failed ``calls`` of a run's finished rows again.

        The run's files contain the failed calls, so the latency pass and a replay must fail at the same
        calls, and every attempt that reached the server is in a row.
        """
        failed = [call for call in calls if call.outcome != "ok"]
        if failed and self._cassette is not None:
            labels = {(call.question_id, call.stage) for call in failed}
            self._cassette.failed |= self._cassette.failures(labels)
        for gateway in self._gateways.values():
            gateway.keep_failures(failed)

    def close(self) -> None:
        """Close the clients, the cassette and the decision cache."""
        self._open.close()

    def _recorded_model(self, model: str) -> str:
        """Return the model to replay: ``model`` or, if it is empty, the only model in the cassette."""
        assert self._cassette is not None
        recorded = self._cassette.models()
        if not recorded:
            raise ArtifactError(
                f"the cassette {self._cassette.path} is empty",
                remedy=Remedy("record a run with {}", "--llm-record"),
            )
        return model or only_model(recorded, str(self._cassette.path))

    def _client(self, base_url: str, model: str, explicit: bool) -> ChatClient:
        """Open a client for an endpoint, and check that the endpoint answers."""
        if not base_url:
            raise UsageError(
                "no LLM endpoint was given",
                remedy=(
                    Remedy("give one with {}", URL_FLAGS),
                    Remedy("run without an LLM, which an agent cannot ({})", NO_LLM_FLAGS),
                ),
            )
        endpoint = open_endpoint("LLM", base_url, self.environment, explicit=explicit)
        self.redact.learn(endpoint.secrets)
        client = ChatClient(
            endpoint, model, self.settings, budget=self.budget, redact=self.redact, notify=self._note
        )
        self._open.callback(client.close)
        try:
            client.check()
        except UnreachableError as error:
            if self._refuses:
                raise
            self.notify(f"{error.message}; every call to this endpoint fails and uses its fallback")
            client.model = model or UNKNOWN_MODEL
        self._check_recording(client)
        return client

    def _note(self, text: str) -> None:
        self.notes.append(text)
        self.notify(text)

    def _check_recording(self, client: ChatClient) -> None:
        """Raise an error if two endpoints with the same model name would be recorded in one cassette."""
        if not self.settings.record:
            return
        other = self._recorded.setdefault(client.model, client.endpoint.url)
        if other != client.endpoint.url:
            raise UsageError(
                f"--llm-record can't record the model {client.model!r} at two endpoints, {other} and "
                f"{client.endpoint.url}, because a cassette does not distinguish endpoints",
                remedy="record each endpoint in a separate run",
            )


@contextmanager
def open_gateway(
    settings: Resolved, cache_path: Path, base_url: str, model: str, notify: Notify
) -> Iterator[tuple[Gateway, PriceTable | None]]:
    """Open a gateway to one endpoint, and yield the gateway and the price table from the settings."""
    redis_url = settings.part(CacheSettings).redis_url
    with LLMSession(
        settings.part(LLMSettings), cache_path=cache_path, redis_url=redis_url, notify=notify
    ) as session:
        yield session.gateway(base_url, model, explicit=True), session.prices


class Source(Record, frozen=True, kw_only=True):
    """The arguments with which a worker calls :func:`~branchrank.search.llm.session.open_gateway`."""

    settings: Resolved
    cache_path: Path
    base_url: str


class AskingTask(Generic[T]):
    """A task that makes the calls in a shard and parses the replies into one ``GatewayReply`` per request.

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
        assert self._source is not None
        source = msgspec.structs.replace(
            self._source,
            settings=with_relative_files(self._source.settings),
            cache_path=Path(os.path.relpath(self._source.cache_path)),
        )
        return {**self.__dict__, "_llm": None, "_source": source}

    @contextmanager
    def open(self) -> Iterator[Callable[[Sequence[LLMRequest]], list[GatewayReply[T]]]]:
        """Yield a function that takes a list of requests and returns their answers."""
        with ExitStack() as opened:
            llm, source = self._llm, self._source
            if llm is None:
                assert source is not None
                llm, _ = opened.enter_context(
                    open_gateway(source.settings, source.cache_path, source.base_url, self._model, no_notice)
                )
            yield lambda requests: llm.ask_all([(request, self._read) for request in requests])


class LLMWork(NamedTuple):
    """An open model and the executor that makes its calls. ``source`` is needed by workers in processes."""

    llm: Gateway
    executor: Executor = InProcess()
    source: Source | None = None
    prices: PriceTable | None = None

    @property
    def spent(self) -> Spent:
        """The number and cost of all calls so far."""
        return Spent(totals=totals(self.llm.ledger.rows, self.prices), prices=self.prices)

    @property
    def at_once(self) -> int:
        """The maximum number of concurrent calls."""
        return self.llm.concurrency * self.executor.workers

    def ask_all(self, requests: Sequence[LLMRequest], read: Callable[[LLMReply], T]) -> list[GatewayReply[T]]:
        """Make independent calls, and parse each reply with ``read``. Return the answers in order."""
        in_process = self.executor.in_process
        size = len(requests) if in_process else self.llm.concurrency
        shards = [requests[start : start + size] for start in range(0, len(requests), size or 1)]
        answers = []
        for answer in self.executor.map(AskingTask(self.llm, read, self.source), shards):
            if not in_process:
                self.llm.ledger.add(answer.call)
            answers.append(answer)
        return answers


@contextmanager
def open_work(folder: WorkspaceFolder, base_url: str, model: str) -> Iterator[LLMWork]:
    """Open the executor of a workspace's settings, and one model at the endpoint ``base_url``.

    Raises :class:`~branchrank.core.errors.UsageError` if the URL is missing or invalid, and
    :class:`~branchrank.core.errors.LLMError` if the endpoint does not answer or refuses the key.
    """
    check_engine(folder.settings, asks_llm=True)
    source = Source(settings=folder.settings, cache_path=folder.decisions_path, base_url=base_url)
    with (
        open_executor(folder.settings, folder.notify) as executor,
        open_gateway(folder.settings, source.cache_path, base_url, model, folder.notify) as (llm, prices),
    ):
        yield LLMWork(llm, executor, source, prices)


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
    return settings.with_parts(msgspec.structs.replace(llm, **relative))
