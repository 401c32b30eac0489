"""Measure the quality, calls, tokens and CPU time of the tree search on corpora of several sizes.

1. At most ``--count`` questions are sampled with a fixed seed. The files with the gold of the questions must
   fit into the smallest subset of the corpus, so some questions are skipped. Every subset consists of the
   files with the gold and a seeded random sample of other files. A larger subset contains all smaller
   subsets.
2. Each subset is indexed and searched with the same questions. The index is built with the hash embedder to
   save time, because the tree search does not use vectors.
3. At each step of the tree search, a chooser selects the sections to follow. The choosers are the lexical
   score, an oracle, an oracle with a full beam, and a random chooser. The oracle selects only the gold or the
   ancestors of the gold. The oracle with a full beam also selects other sections until the beam is full. With
   ``--base-url``, an LLM on a server is the only chooser.
4. A hit is a section's own span, so that the benchmark measures the tree search, not the choice of a passage.
5. If a script chooses in place of an LLM, the number of tokens is estimated as one token per three bytes. For
   an LLM, the server reports the number of tokens.
6. The reported CPU time is that of this process, excluding the scripted choosers. The CPU time with an LLM is
   measured in one round. All other CPU times are medians of three rounds.

    python benchmarks/tree_search.py CORPUS QUESTIONS.jsonl [--sizes 25 50 100 200 400 0] [--count 20]
        [--base-url URL --model NAME --model-sizes 25 50 --model-count 2]
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfile
from typing import Literal, NamedTuple

import msgspec

from branchrank.core.records import Question
from branchrank.core.settings import LLMSettings
from branchrank.core.spec import System, TreeSearch
from branchrank.documents.loading import discover
from branchrank.documents.tree_nodes import Tree
from branchrank.index.index_build import build_index
from branchrank.index.reader import Index
from branchrank.index.workspace_folder import WorkspaceFolder, configure
from branchrank.questions.question_files import load_questions
from branchrank.scoring.matching import is_strict
from branchrank.search.llm.gateway import Gateway
from branchrank.search.llm.ledger import Totals, totals_by
from branchrank.search.llm.prompts import excerpt
from branchrank.search.llm.request import CallResult, LLMReply, LLMRequest, Usage, estimate_tokens
from branchrank.search.llm.session import LLMSession
from branchrank.search.systems.builtin import builtin_systems
from branchrank.search.systems.engine import Engine
from branchrank.search.systems.llm_choice import HEADING_CHARS, estimate
from branchrank.search.systems.memo import Memo
from branchrank.search.systems.query import LLMStages, Query

ENTRY = re.compile(r"^\[(s\d+)\] (.*)$", re.MULTILINE)
SEED = 42
TOP_K = 5
ROUNDS = 3
PAGE_SIZES = (6, 12, 24, 48, 96)
COST_COLUMNS = ("hit@1", "hit@5", "LLM calls", "prompt tokens", "largest prompt", "CPU ms", "fallbacks")

#: Takes the prompt's labels with their headings, and the gold. Returns the selected labels, best first.
Rule = Callable[[dict[str, str], "Gold"], list[str]]


class Gold(NamedTuple):
    """The headings that an oracle knows: those of the gold's sections and those of the ancestors."""

    exact: frozenset[str]
    above: frozenset[str]


class Scripted:
    """A script that replaces an LLM. ``rule`` selects labels, and ``cpu`` is the rule's CPU time in s."""

    model = "scripted"

    def __init__(self, rule: Rule, golds: dict[str, Gold]) -> None:
        self.rule = rule
        self.golds = golds
        self.cpu = 0.0
        self._lock = threading.Lock()

    def complete(self, request: LLMRequest) -> CallResult:
        """Reply with the labels that ``rule`` selects from the entries in the prompt."""
        started = time.thread_time()
        shown = dict(ENTRY.findall(request.messages[-1].content))
        assert request.schema is not None
        most = request.schema["properties"]["ids"]["maxItems"]
        named = self.rule(shown, self.golds[request.context.question_id])[:most]
        text = json.dumps({"ids": named})
        usage = Usage(prompt_tokens=request.prompt_tokens, completion_tokens=estimate_tokens(text))
        with self._lock:
            self.cpu += time.thread_time() - started
        return CallResult(reply=LLMReply(text=text, usage=usage))


def oracle(shown: dict[str, str], gold: Gold) -> list[str]:
    """Select the entries that contain the gold, or the gold's ancestors if no entry contains the gold."""
    exact = [label for label, heading in shown.items() if heading in gold.exact]
    return exact or [label for label, heading in shown.items() if heading in gold.above]


def full_oracle(shown: dict[str, str], gold: Gold) -> list[str]:
    """Select all entries, the oracle's entries first, so that the beam is always full."""
    first = oracle(shown, gold)
    return first + [label for label in shown if label not in first]


def chance(shown: dict[str, str], gold: Gold) -> list[str]:
    """Select all entries in a random order, seeded with the entries' headings."""
    names = list(shown)
    random.Random("\n".join(shown.values())).shuffle(names)
    return names


FULL = "oracle, full beam"
RULES: dict[str, Rule] = {"oracle": oracle, FULL: full_oracle, "random": chance}


class Chooser(NamedTuple):
    """Selects sections with a scripted LLM, a real LLM or (without a gateway) the lexical score."""

    name: str
    gateway: Gateway | None = None
    scripted: Scripted | None = None

    @property
    def cpu(self) -> float:
        """The chooser's CPU time in seconds."""
        return self.scripted.cpu if self.scripted is not None else 0.0


class Outcome(NamedTuple):
    """A chooser's results on one subset of the corpus.

    All fields are means per question, except the largest prompt, the fallbacks and the stage totals.
    """

    hit_1: float
    hit_5: float
    calls: float
    prompt: float
    largest: int
    cpu_ms: float
    seconds: float
    fallbacks: dict[str, int]
    stages: dict[str, Totals]


def sources(question: Question) -> set[str]:
    """Return the files that contain a question's gold."""
    return {item.source_file for item in question.gold}


def draw(questions: Sequence[Question], count: int, files: int) -> list[Question]:
    """Return a seeded sample of at most ``count`` questions.

    The gold of all questions in the sample is in at most ``files`` files in total.
    """
    order = sorted((question for question in questions if question.answerable), key=lambda q: q.id)
    random.Random(SEED).shuffle(order)
    drawn: list[Question] = []
    held: set[str] = set()
    for question in order:
        if len(drawn) < count and len(held | sources(question)) <= files:
            drawn.append(question)
            held |= sources(question)
    return drawn


@contextmanager
def part(corpus: Path, keep: set[str], size: int) -> Iterator[Index]:
    """Build an index of ``size`` documents (0 means all), including those in ``keep``."""
    others = [file.source for file in discover(corpus).files if file.source not in keep]
    random.Random(SEED).shuffle(others)
    chosen = [*sorted(keep), *(others if size == 0 else others[: max(0, size - len(keep))])]
    with tempfile.TemporaryDirectory() as folder:
        documents = Path(folder, "documents")
        for source in chosen:
            (documents / source).parent.mkdir(parents=True, exist_ok=True)
            copyfile(corpus / source, documents / source)
        data_dir = Path(folder, "data")
        vectors = {"index.embedder": "fake:8", "index.vector_store": "exact"}
        configure(data_dir, corpus=documents, settings=vectors)
        with build_index(WorkspaceFolder.open(data_dir, environment={})) as index:
            yield index


def known_gold(tree: Tree, question: Question) -> Gold:
    """Return the headings of the gold's section and of its ancestors, in the form used in prompts."""
    exact, above = set(), set()
    for item in question.gold:
        if item.span is None:
            continue
        for node in tree.overlapping(item.span)[:1]:
            exact.add(excerpt(node.breadcrumb or node.title, HEADING_CHARS))
            while (parent := tree.parent(node.id)) is not None:
                above.add(excerpt(node.breadcrumb or node.title, HEADING_CHARS))
                node = parent
    return Gold(frozenset(exact), frozenset(above))


def pageindex(walk: TreeSearch, by: Literal["llm", "lexical"]) -> System:
    """Return ``pageindex`` with the tree search ``walk``, guided by the lexical score or by an LLM."""
    workspace = WorkspaceFolder.open(Path("none"), flags={"pageindex.no_llm": True}, environment={})
    (system,) = builtin_systems(("pageindex",), workspace.settings)
    (branch,) = system.branches
    walk = msgspec.structs.replace(walk, steps_by=by, final_by=by)
    branch = msgspec.structs.replace(branch, tree=walk)
    return msgspec.structs.replace(system, branches=(branch,), returns="section")


def measure(index: Index, questions: Sequence[Question], walk: TreeSearch, chooser: Chooser) -> Outcome:
    """Answer every question, each with an empty memo, and return the results."""
    system = pageindex(walk, "llm" if chooser.gateway is not None else "lexical")
    gateway = chooser.gateway
    stages = LLMStages(lambda endpoint: gateway) if gateway is not None else LLMStages()
    settings = WorkspaceFolder.open(Path("none"), environment={}).settings
    # The tree search reads only the nodes, never the documents.
    engine = Engine(index, Path("none"), settings, memo=Memo(one_query=True), llm_stages=stages)
    real = gateway is not None and chooser.scripted is None
    spent, started = [], time.perf_counter()
    for _ in range(1 if real else ROUNDS):
        begun = time.process_time() - chooser.cpu
        found = [
            engine.retrieve(system, Query(text=question.question, question_id=question.id), TOP_K)
            for question in questions
        ]
        spent.append(time.process_time() - chooser.cpu - begun)
    seconds = (time.perf_counter() - started) / len(spent)
    right = [
        [any(is_strict(hit, item, question) for item in question.gold) for hit in one.hits]
        for one, question in zip(found, questions, strict=True)
    ]
    calls = [call for one in found for call in one.calls]
    count = len(questions)
    return Outcome(
        hit_1=sum(any(hits[:1]) for hits in right) / count,
        hit_5=sum(any(hits) for hits in right) / count,
        calls=len(calls) / count,
        prompt=sum(call.prompt_tokens for call in calls) / count,
        largest=max((call.prompt_tokens for call in calls), default=0),
        cpu_ms=1000.0 * statistics.median(spent) / count,
        seconds=seconds / count,
        fallbacks=Counter(reason for one in found for reason in one.fallbacks),
        stages=totals_by(calls, lambda call: call.stage),
    )


def choosers(index: Index, questions: Sequence[Question]) -> list[Chooser]:
    """Return the choosers that need no LLM server."""
    golds = {question.id: known_gold(index.tree, question) for question in questions}
    made = [Chooser("lexical")]
    for name, rule in RULES.items():
        scripted = Scripted(rule, golds)
        made.append(Chooser(name, Gateway(scripted.model, scripted), scripted))
    return made


def shape(index: Index) -> str:
    """Return the number of documents, number of nodes, depth and largest fan-out of a tree as table cells."""
    nodes = index.tree.nodes.values()
    documents = len({node.source for node in nodes if node.source})
    widest = max(len(node.children) for node in nodes)
    return f"{documents} | {len(nodes):,} | {max(node.depth for node in nodes)} | {widest}"


def header(*names: str) -> None:
    """Print the header row and the separator row of a Markdown table."""
    print(f"\n| {' | '.join(names)} |\n|{' --- |' * len(names)}", flush=True)


def cells(outcome: Outcome) -> str:
    """Return the quality and the cost as table cells."""
    reasons = ", ".join(f"{reason} ({n})" for reason, n in sorted(outcome.fallbacks.items()))
    return (
        f"{outcome.hit_1:.2f} | {outcome.hit_5:.2f} | {outcome.calls:.1f} | {outcome.prompt:,.0f} "
        f"| {outcome.largest:,} | {outcome.cpu_ms:.1f} | {reasons or 'none'}"
    )


def by_size(corpus: Path, questions: Sequence[Question], sizes: Sequence[int]) -> None:
    """Print the tables by corpus size, by stage and by ``step_candidates``."""
    keep = set().union(*map(sources, questions))
    header("documents", "nodes", "depth", "widest", "chooser", *COST_COLUMNS)
    full: dict[str, Outcome] = {}
    for size in sizes:
        with part(corpus, keep, size) as index:
            for chooser in choosers(index, questions):
                outcome = measure(index, questions, TreeSearch(), chooser)
                print(f"| {shape(index)} | {chooser.name} | {cells(outcome)} |", flush=True)
                if chooser.name == FULL:
                    full[shape(index)] = outcome
            if size == sizes[-1]:
                by_stage(full, len(questions))
                by_page_size(index, questions)


def by_stage(outcomes: dict[str, Outcome], count: int) -> None:
    """Print the table of calls and prompt tokens per question in each stage."""
    stages = sorted({stage for outcome in outcomes.values() for stage in outcome.stages})
    header("documents", "nodes", "depth", "widest", *stages)
    for place, outcome in outcomes.items():
        found = [outcome.stages.get(stage, Totals()) for stage in stages]
        spent = (f"{one.calls / count:.1f}: {one.prompt_tokens / count:,.0f}" for one in found)
        print(f"| {place} | {' | '.join(spent)} |", flush=True)


def by_page_size(index: Index, questions: Sequence[Question]) -> None:
    """Print the table for several values of ``step_candidates``."""
    header("step candidates", "chooser", *COST_COLUMNS)
    for size in PAGE_SIZES:
        for chooser in choosers(index, questions)[1:3]:
            outcome = measure(index, questions, TreeSearch(step_candidates=size), chooser)
            print(f"| {size} | {chooser.name} | {cells(outcome)} |", flush=True)


def by_model(corpus: Path, questions: Sequence[Question], arguments: argparse.Namespace) -> None:
    """Print the table for an LLM on a server."""
    keep = set().union(*map(sources, questions))
    asked = questions[: arguments.model_count]
    header("documents", "nodes", "depth", "widest", "s per question", *COST_COLUMNS)
    for size in arguments.model_sizes:
        settings = LLMSettings(deadline_s=300.0)
        with part(corpus, keep, size) as index, LLMSession(settings) as session:
            gateway = session.gateway(arguments.base_url, arguments.model, explicit=True)
            outcome = measure(index, asked, TreeSearch(), Chooser(arguments.model, gateway))
            print(f"| {shape(index)} | {outcome.seconds:.0f} | {cells(outcome)} |", flush=True)


def main() -> None:
    """Measure the tree search on corpora of several sizes, and print Markdown tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path)
    parser.add_argument("questions", type=Path)
    parser.add_argument("--sizes", type=int, nargs="+", default=[25, 50, 100, 200, 400, 0])
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--base-url", default="")
    parser.add_argument("--model", default="")
    parser.add_argument("--model-sizes", type=int, nargs="+", default=[25, 50])
    parser.add_argument("--model-count", type=int, default=2)
    arguments = parser.parse_args()
    loaded = load_questions(arguments.questions)
    questions = draw(loaded, arguments.count, arguments.sizes[0] or sys.maxsize)
    bound = estimate(pageindex(TreeSearch(), "llm"), 1)
    print(
        f"{len(questions)} questions; according to the dry run, at most {bound.calls} calls and "
        f"{bound.prompt_tokens:,} prompt tokens each"
    )
    if arguments.base_url:
        by_model(arguments.corpus, questions, arguments)
    else:
        by_size(arguments.corpus, questions, arguments.sizes)


if __name__ == "__main__":
    main()
