"""The LLM side of one command: its budget, ledger, cassettes and clients, opened and closed together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from branchrank.errors import ArtifactError, LLMError, UsageError
from branchrank.llm.budget import Budget
from branchrank.llm.cassette import Cassette, DecisionCache
from branchrank.llm.client import ChatClient, UnreachableError
from branchrank.llm.gateway import Gateway
from branchrank.llm.ledger import Ledger, PriceTable, read_prices
from branchrank.llm.secrets import open_endpoint
from branchrank.progress import Notify, no_notice
from branchrank.records import LLMCall
from branchrank.redactor import Redactor, environment_secrets
from branchrank.settings import CacheSettings, LLMSettings, Resolved

if TYPE_CHECKING:
    from branchrank.llm.decisions_redis import RedisDecisions

#: Model name when none was given and the endpoint could not be reached to list its models.
UNKNOWN_MODEL = "unknown"


class LLMSession:
    """Opens gateways that share one budget, ledger and decision cache. Use it as a context manager.

    ``cache_path`` is the workspace's decision cache (``data/hybrid/cache/decisions.sqlite``), or ``None`` for
    no cache; ``redis_url`` names a Redis to use instead, and ``notify`` is called when it fails. With
    ``may_fall_back`` the setting ``on_failure`` decides what happens when an endpoint cannot be reached;
    otherwise that is an error. Raises :class:`UsageError` for ``--llm-record`` together with
    ``--llm-replay``, and what :class:`Cassette` and :class:`~branchrank.redis_connection.RedisConnection`
    raise.
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
                "--llm-record and --llm-replay exclude each other", remedy="leave one of them out"
            )
        self.settings = settings
        self.notify = notify
        self._refuses = not may_fall_back or settings.on_failure == "refuse"
        self.environment = os.environ if environment is None else environment
        self.redact = Redactor(environment_secrets(self.environment))
        self.ledger = ledger or Ledger()
        self.budget = Budget(
            max_calls=settings.max_calls, max_tokens=settings.max_tokens, retries=settings.retry_budget
        )
        self.prices: PriceTable | None = (
            read_prices(Path(settings.price_table)) if settings.price_table else None
        )
        self._open = ExitStack()
        self._cassette: Cassette | None = None
        self._cache: DecisionCache | None = None
        self._gateways: dict[tuple[str, str], Gateway] = {}
        self._failed: set[str] = set()
        self._recorded: dict[str, str] = {}
        try:
            if settings.record or settings.replay:
                path = Path(settings.record or settings.replay)
                self._cassette = self._keep(path, readonly=bool(settings.replay))
            if cache_path is not None and not settings.replay:
                # WORKSPACE/hybrid/cache/decisions.sqlite: no link is followed below the workspace.
                self._cache = (
                    self._shared(redis_url)
                    if redis_url
                    else self._keep(cache_path, root=cache_path.parents[2])
                )
        except BaseException:
            self._open.close()
            raise

    def __enter__(self) -> LLMSession:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def gateway(self, base_url: str, model: str, *, explicit: bool = False) -> Gateway:
        """Return the gateway to one model, after a check that its endpoint answers.

        ``explicit`` says that a flag or the environment names ``base_url``, not a workspace's file. An empty
        ``model`` means the only one that the endpoint lists (in a replay: the only recorded one).

        Raises:
            UsageError: the endpoint is missing or not a URL.
            LLMError: nothing answers there, the key is refused, or the model can't be chosen.
        """
        known = self._gateways.get((base_url, model))
        if known is None:
            known = self._replayed(model) if self.settings.replay else self._served(base_url, model, explicit)
            self._gateways[base_url, model] = known
        return known

    def keep_failures(self, calls: Iterable[LLMCall]) -> None:
        """In a recording, do not retry the failed ones among these calls of an interrupted run.

        Their rows are already written, so a replay must have the same failures.
        """
        labels = {(call.question_id, call.stage) for call in calls if call.outcome != "ok"}
        if labels and self._cassette is not None:
            self._failed |= self._cassette.failures(labels)

    def cancel(self) -> None:
        """Cancel all running calls."""
        for gateway in self._gateways.values():
            gateway.cancel()

    def close(self) -> None:
        """Close the clients and leave each cassette as a single file."""
        self._open.close()

    def _keep(self, path: Path, *, readonly: bool = False, root: Path | None = None) -> Cassette:
        # The redactor is looked up at each call: opening an endpoint can add keys to it.
        cassette = Cassette(path, readonly=readonly, redact=lambda text: self.redact(text), root=root)
        return self._open.enter_context(cassette)

    def _shared(self, redis_url: str) -> RedisDecisions:
        from branchrank.llm.decisions_redis import RedisDecisions

        decisions = RedisDecisions(redis_url, redact=lambda text: self.redact(text), notify=self.notify)
        return self._open.enter_context(decisions)

    def _replayed(self, model: str) -> Gateway:
        assert self._cassette is not None
        recorded = self._cassette.models()
        if not recorded:
            raise ArtifactError(
                f"{self._cassette.path} holds no calls", remedy="record the run with --llm-record"
            )
        return Gateway(
            model or _only(recorded, str(self._cassette.path)),
            None,
            ledger=self.ledger,
            cassette=self._cassette,
            concurrency=self.settings.concurrency,
            max_tokens=self.settings.completion_tokens,
        )

    def _served(self, base_url: str, model: str, explicit: bool) -> Gateway:
        if not base_url:
            raise UsageError(
                "no LLM endpoint is named",
                remedy="name one with --hybrid-base-url or --pageindex-base-url, "
                "or run without: --hybrid-no-llm, --pageindex-no-llm",
            )
        endpoint = open_endpoint(base_url, self.environment, explicit=explicit)
        self.redact = self.redact.knowing(endpoint.secrets)
        client = ChatClient(
            endpoint, model, self.settings, budget=self.budget, redact=lambda text: self.redact(text)
        )
        self._open.callback(client.close)
        client.model = self._reached(client, model)
        self._check_recording(client)
        return Gateway(
            client.model,
            client,
            ledger=self.ledger,
            cassette=self._cassette,
            cache=self._cache,
            endpoint=endpoint.url,
            failed=self._failed,
            concurrency=self.settings.concurrency,
            max_tokens=self.settings.completion_tokens,
        )

    def _reached(self, client: ChatClient, model: str) -> str:
        """Return the model to call.

        An unreachable endpoint is an error, or, with ``may_fall_back``, its calls fail.
        """
        try:
            listed = client.probe()
        except UnreachableError as error:
            if self._refuses:
                raise
            self.notify(f"{error.message}; every stage that asks it takes its fallback")
            return model or UNKNOWN_MODEL
        return model or _only(list(listed), client.endpoint.url)

    def _check_recording(self, client: ChatClient) -> None:
        """Refuse to record two endpoints whose calls would have the same keys in the cassette."""
        if not self.settings.record:
            return
        other = self._recorded.setdefault(client.model, client.endpoint.url)
        if other != client.endpoint.url:
            raise UsageError(
                f"--llm-record keeps calls by model, and {client.model!r} is asked at {other} and at "
                f"{client.endpoint.url}: the second would get the answers of the first",
                remedy="record each endpoint in a run of its own",
            )


@contextmanager
def open_gateway(
    settings: Resolved, cache_path: Path, base_url: str, model: str, notify: Notify
) -> Iterator[tuple[Gateway, PriceTable | None]]:
    """Open a gateway to an endpoint that the caller names, and the price table of its calls."""
    redis_url = settings.part(CacheSettings).redis_url
    with LLMSession(
        settings.part(LLMSettings), cache_path=cache_path, redis_url=redis_url, notify=notify
    ) as session:
        yield session.gateway(base_url, model, explicit=True), session.prices


def _only(models: list[str], where: str) -> str:
    if len(models) == 1:
        return models[0]
    shown = ", ".join(sorted(models)[:10]) or "none listed"
    raise LLMError(
        f"no model is named, and {where} has {len(models)}: {shown}",
        remedy="name one with --hybrid-model or --pageindex-model",
    )
