"""Opening what a command needs: the workspace, its index (built where missing or stale), the LLM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from branchrank.cli.terminal import progress_bars, safe, say
from branchrank.errors import ArtifactError, BusyError
from branchrank.index import Index, build_index, open_index
from branchrank.index.workspace_folder import WorkspaceFolder
from branchrank.llm.gateway import Gateway
from branchrank.llm.ledger import Ledger, PriceTable
from branchrank.records import LLMCall
from branchrank.settings import BenchmarkSettings, CacheSettings, LLMSettings, Resolved
from branchrank.systems.llm_stages import LLMStages
from branchrank.systems.spec import Endpoint, System


def open_or_build(data_dir: Path, settings: Resolved, *, quiet: bool = False) -> Index:
    """Open the workspace's index; one that is missing or stale is built first, said in one line."""
    workspace = WorkspaceFolder(data_dir, settings, notify=say)
    try:
        return open_index(workspace)
    except BusyError:
        raise
    except ArtifactError as reason:
        click.echo(f"{safe(reason.message)}; building it", err=True)
        with progress_bars(quiet) as progress:
            return build_index(workspace, progress=progress)


class LLMMeter:
    """Counts the calls, tokens and cost of a command as they come, and shows them."""

    def __init__(self, show: Callable[[str], None] = lambda text: None) -> None:
        self.show = show
        self.prices: PriceTable | None = None
        self.calls = self.tokens = 0
        self.cost = 0.0

    def add(self, call: LLMCall) -> None:
        """Count one call and show the totals."""
        self.calls += 1
        self.tokens += call.prompt_tokens + call.completion_tokens
        text = f"LLM: {self.calls:,} calls, {self.tokens:,} tokens"
        if self.prices is not None:
            self.cost += self.prices.cost(call) or 0.0
            text += f", {self.cost:.4f} {self.prices.currency}"
        self.show(text)


@contextmanager
def llm_stages(
    data_dir: Path, settings: Resolved, systems: Sequence[System], meter: LLMMeter | None = None
) -> Iterator[LLMStages]:
    """The LLM side of a command; endpoints are checked before any work, and nothing opens without need."""
    seed = settings.part(BenchmarkSettings).sample_seed
    asking = [system for system in systems if system.asks_llm]
    if not asking:
        yield LLMStages(seed=seed)
        return
    from branchrank.llm.session import LLMSession

    meter = meter or LLMMeter()
    cache = data_dir / "hybrid" / "cache" / "decisions.sqlite"
    # Rows of a benchmark hold their calls themselves, and a server that runs for months needs none.
    ledger = Ledger(meter.add, limit=0)
    redis_url = settings.part(CacheSettings).redis_url
    with LLMSession(
        settings.part(LLMSettings), cache_path=cache, redis_url=redis_url, notify=say, ledger=ledger
    ) as session:
        meter.prices = session.prices

        def gateway_of(endpoint: Endpoint) -> Gateway:
            section = next(system for system in asking if system.llm == endpoint).name
            origin = settings.origins.get(f"{section}.base_url", "default")
            explicit = origin.startswith(("flag", "environment"))
            return session.gateway(endpoint.base_url, endpoint.model, explicit=explicit)

        for system in asking:
            gateway_of(system.llm)
        yield LLMStages(gateway_of, seed=seed)
