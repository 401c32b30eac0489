"""Settings: one frozen record per part, resolved as defaults < TOML < environment < flags.

1. A part's record says each setting's type, default, range and meaning, once.
2. :func:`resolve` merges the four layers, checks every value, and reports all problems together.
3. The commands make their flags from the same records; the docs and ``run.json`` list them.

A setting ``vector_top_n`` of the section ``local`` is ``[local] vector_top_n`` in TOML,
``BRANCHRANK_LOCAL_VECTOR_TOP_N`` in the environment and ``--local-vector-top-n`` on the command line.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args, get_type_hints

import msgspec
from msgspec import Meta

from branchrank.errors import UsageError
from branchrank.records import Record

S = TypeVar("S", bound="Settings")


class Settings(Record, frozen=True, kw_only=True):
    """Base of every part's settings. ``section`` is the TOML table and the flag prefix."""

    section: ClassVar[str] = ""
    #: Fields whose flag has another name than ``--<section>-<field>``.
    flag_names: ClassVar[dict[str, str]] = {}


class IndexSettings(Settings, frozen=True, kw_only=True):
    """What an index is made of."""

    section: ClassVar[str] = "index"
    flag_names: ClassVar[dict[str, str]] = {
        "embedder": "--embedder",
        "vector_store": "--vector-store",
        "chunk_tokens": "--chunk-tokens",
        "chunk_overlap": "--chunk-overlap",
        "chroma_url": "--chroma-url",
        "embedding_url": "--embedding-url",
    }
    embedder: Annotated[
        str,
        Meta(
            description="embedding model: all-MiniLM-L6-v2 (from a package), a sentence-transformers name "
            "or path, openai:MODEL or ollama:MODEL (see --embedding-url), or fake"
        ),
    ] = "nomic-ai/CodeRankEmbed"
    embedding_url: Annotated[str, Meta(description="base URL of the embedding endpoint")] = ""
    embedding_revision: Annotated[str, Meta(description="model revision on the hub; empty: its default")] = ""
    vector_store: Annotated[
        Literal["auto", "chroma", "exact"],
        Meta(description="who searches the vectors; auto: exactly up to 50,000 chunks, Chroma above"),
    ] = "auto"
    chroma_url: Annotated[str, Meta(description="URL of a Chroma server; empty: embedded")] = ""
    chunk_tokens: Annotated[int, Meta(ge=32, le=8192, description="target size of a chunk in tokens")] = 256
    chunk_overlap: Annotated[
        int, Meta(ge=0, le=512, description="tokens that a chunk repeats from the one before it")
    ] = 0


class Bm25Settings(Settings, frozen=True, kw_only=True):
    """The BM25 analyzer and weights (Robertson & Zaragoza 2009; variants in Kamphuis et al. 2020)."""

    section: ClassVar[str] = "bm25"
    stemmer: Annotated[
        Literal["english", "porter", "none"], Meta(description="Snowball stemmer applied to each token")
    ] = "english"
    stop_words: Annotated[
        Literal["questions", "english", "none"],
        Meta(description="words left out; questions: those that ask, too; english: Lucene's list"),
    ] = "questions"
    split_identifiers: Annotated[
        bool, Meta(description="index the words inside camelCase, snake_case and dotted names as well")
    ] = True
    k1: Annotated[float, Meta(ge=0.0, le=10.0, description="term frequency saturation")] = 0.9
    b: Annotated[float, Meta(ge=0.0, le=1.0, description="length normalisation")] = 0.4
    idf: Annotated[
        Literal["lucene", "robertson", "atire", "bm25+", "bm25l"], Meta(description="BM25 variant")
    ] = "lucene"


class LocalSettings(Settings, frozen=True, kw_only=True):
    """The local predictor: vectors and BM25 over chunks, fused by RRF."""

    section: ClassVar[str] = "local"
    vector_top_n: Annotated[int, Meta(ge=1, le=10_000, description="chunks from the vector branch")] = 40
    bm25_top_n: Annotated[int, Meta(ge=1, le=10_000, description="chunks from the BM25 branch")] = 80
    rrf_k: Annotated[int, Meta(ge=1, le=10_000, description="constant k of RRF")] = 60
    bm25_weight: Annotated[float, Meta(ge=0.0, le=100.0, description="weight of BM25 in RRF")] = 1.0
    vector_weight: Annotated[float, Meta(ge=0.0, le=100.0, description="weight of vectors in RRF")] = 1.0


class HybridSettings(Settings, frozen=True, kw_only=True):
    """The hybrid predictor: vector shortlist, tree expansion, RRF with BM25 over nodes, rerank."""

    section: ClassVar[str] = "hybrid"
    vector_top_n: Annotated[int, Meta(ge=1, le=10_000, description="chunks in the vector shortlist")] = 40
    bm25_top_n: Annotated[int, Meta(ge=1, le=10_000, description="nodes from the BM25 branch")] = 80
    rrf_k: Annotated[int, Meta(ge=1, le=10_000, description="constant k of RRF")] = 60
    bm25_weight: Annotated[float, Meta(ge=0.0, le=100.0, description="weight of BM25 in RRF")] = 1.0
    vector_weight: Annotated[
        float, Meta(ge=0.0, le=100.0, description="weight of the expanded vector branch in RRF")
    ] = 1.0
    candidate_cap: Annotated[int, Meta(ge=20, le=50, description="candidates kept after the fusion")] = 30
    neighbor_depth: Annotated[
        int, Meta(ge=0, le=4, description="steps through the tree from a shortlisted node")
    ] = 1
    siblings: Annotated[int, Meta(ge=0, le=50, description="siblings taken per node")] = 2
    file_roots: Annotated[int, Meta(ge=0, le=50, description="file roots inferred from the shortlist")] = 5
    no_llm: Annotated[bool, Meta(description="ablation: no LLM rerank")] = False
    reranker: Annotated[
        Literal["llm", "pointwise", "cross-encoder"],
        Meta(
            description="llm: one listwise call; pointwise: yes/no log-probabilities; cross-encoder: a model"
        ),
    ] = "llm"
    cross_encoder: Annotated[str, Meta(description="sentence-transformers CrossEncoder model or path")] = ""
    base_url: Annotated[str, Meta(description="OpenAI-compatible endpoint of the reranking LLM")] = ""
    model: Annotated[str, Meta(description="model of the reranking LLM")] = ""
    candidate_order: Annotated[
        Literal["shuffled", "fused"],
        Meta(description="order in which the LLM sees the candidates; shuffled is seeded and recorded"),
    ] = "shuffled"
    rerank_fusion_weight: Annotated[
        float,
        Meta(ge=0.0, le=1.0, description="weight of the reranker's order against the first stage; 1: alone"),
    ] = 1.0
    context_tokens: Annotated[
        int, Meta(ge=512, le=1_000_000, description="prompt budget; a larger pool goes in two batches")
    ] = 8000


class PageindexSettings(Settings, frozen=True, kw_only=True):
    """The pageindex predictor: a search down the tree from the roots."""

    section: ClassVar[str] = "pageindex"
    beam: Annotated[int, Meta(ge=1, le=64, description="nodes followed at each step")] = 4
    depth: Annotated[int, Meta(ge=1, le=32, description="steps down the tree at most")] = 12
    step_candidates: Annotated[
        int, Meta(ge=2, le=500, description="children shown to the LLM in one step")
    ] = 24
    final_candidates: Annotated[
        int, Meta(ge=1, le=500, description="visited nodes shown to the final ranking")
    ] = 24
    max_steps: Annotated[int, Meta(ge=1, le=64, description="step calls per question at most")] = 12
    no_llm: Annotated[bool, Meta(description="ablation: the same beam, scored lexically")] = False
    llm_final_only: Annotated[bool, Meta(description="lexical steps, an LLM for the final ranking")] = False
    base_url: Annotated[str, Meta(description="OpenAI-compatible endpoint of the tree-search LLM")] = ""
    model: Annotated[str, Meta(description="model of the tree-search LLM")] = ""


class CacheSettings(Settings, frozen=True, kw_only=True):
    """Where embeddings are remembered. It changes no vector, so it is no part of an index."""

    section: ClassVar[str] = "cache"
    redis_url: Annotated[
        str, Meta(description="Redis that remembers embeddings; empty: a SQLite file of the workspace")
    ] = ""


class LLMSettings(Settings, frozen=True, kw_only=True):
    """The one LLM client."""

    section: ClassVar[str] = "llm"
    flag_names: ClassVar[dict[str, str]] = {
        "max_calls": "--max-calls",
        "max_tokens": "--max-tokens",
        "record": "--llm-record",
        "replay": "--llm-replay",
        "price_table": "--price-table",
    }
    deadline_s: Annotated[
        float, Meta(gt=0, le=3600, description="seconds for one call, retries and waits included")
    ] = 60.0
    retries: Annotated[int, Meta(ge=0, le=10, description="retries of one call")] = 2
    retry_budget: Annotated[int, Meta(ge=0, le=1_000_000, description="retries in one run")] = 100
    concurrency: Annotated[int, Meta(ge=1, le=64, description="calls under way at once")] = 4
    repeats: Annotated[int, Meta(ge=1, le=50, description="runs of each LLM arm per question")] = 1
    max_calls: Annotated[int, Meta(ge=0, description="calls that reach a server; 0: no limit")] = 0
    max_tokens: Annotated[int, Meta(ge=0, description="tokens spent at a server; 0: no limit")] = 0
    completion_tokens: Annotated[
        int, Meta(ge=16, le=100_000, description="completion tokens asked for per call")
    ] = 512
    record: Annotated[str, Meta(description="cassette file that keeps every call")] = ""
    replay: Annotated[str, Meta(description="cassette file that answers every call, without a server")] = ""
    price_table: Annotated[str, Meta(description="TOML file with prices per million tokens and a date")] = ""


class BenchmarkSettings(Settings, frozen=True, kw_only=True):
    """One benchmark run."""

    section: ClassVar[str] = "benchmark"
    flag_names: ClassVar[dict[str, str]] = {
        "mode": "--mode",
        "sample_size": "--sample-size",
        "sample_seed": "--sample-seed",
        "top_k": "--top-k",
        "returns": "--return",
        "latency_sample": "--latency-sample",
        "trace_depth": "--trace-depth",
        "question_text": "--question-text",
        "delta": "--delta",
        "alpha": "--alpha",
        "primary": "--primary",
        "baseline": "--baseline",
        "bootstrap": "--bootstrap",
    }
    mode: Annotated[Literal["strict", "relaxed", "both"], Meta(description="which scorings are reported")] = (
        "both"
    )
    sample_size: Annotated[int, Meta(ge=0, description="questions drawn by the seed; 0: all")] = 0
    sample_seed: Annotated[int, Meta(ge=0, description="seed of the sample and of every random draw")] = 42
    top_k: Annotated[int, Meta(ge=1, le=1000, description="hits kept per question")] = 10
    returns: Annotated[
        Literal["passage", "section"], Meta(description="a node's best chunk, or its whole own span")
    ] = "passage"
    latency_sample: Annotated[
        int, Meta(ge=0, description="questions timed one at a time; 0: no latency pass")
    ] = 60
    trace_depth: Annotated[
        int, Meta(ge=0, le=100_000, description="entries of each stage's list kept in a row")
    ] = 20
    question_text: Annotated[
        Literal["keep", "hash"],
        Meta(description="keep the questions' wording in the run's directory, or its SHA-256 only"),
    ] = "keep"
    primary: Annotated[str, Meta(description="the declared primary measure")] = "strict_hit@1"
    baseline: Annotated[
        str, Meta(description="the predictor the others are compared with; empty: the first")
    ] = ""
    delta: Annotated[float, Meta(gt=0, lt=1, description="largest difference that counts as none")] = 0.05
    alpha: Annotated[float, Meta(gt=0, lt=1, description="family-wise error rate")] = 0.05
    bootstrap: Annotated[int, Meta(ge=100, le=1_000_000, description="bootstrap resamples")] = 2000


class RetrievalSettings(Settings, frozen=True, kw_only=True):
    """The sqlite predictor: FTS5 and vectors, weighted RRF, grouped by document."""

    section: ClassVar[str] = "retrieval"
    flag_names: ClassVar[dict[str, str]] = {"hybrid_alpha": "--hybrid-alpha"}
    final_limit: Annotated[int, Meta(ge=1, le=1000, description="results returned")] = 12
    hybrid_alpha: Annotated[float, Meta(ge=0.0, le=1.0, description="0: keyword only, 1: semantic only")] = (
        0.6
    )
    candidate_k_keyword: Annotated[int, Meta(ge=1, le=10_000, description="FTS5 candidates")] = 80
    candidate_k_vector: Annotated[int, Meta(ge=1, le=10_000, description="vector candidates")] = 80
    group_by: Annotated[Literal["document", "none"], Meta(description="how results are grouped")] = "document"
    doc_agg: Annotated[Literal["max", "avg"], Meta(description="a document's score from its chunks")] = "max"
    max_chunks_per_doc: Annotated[int, Meta(ge=1, le=100, description="chunks shown per document")] = 3
    rrf_k: Annotated[int, Meta(ge=1, le=10_000, description="constant k of RRF")] = 60


class EmbeddingSettings(Settings, frozen=True, kw_only=True):
    """The embeddings of the sqlite search; without a model it answers keyword queries only."""

    section: ClassVar[str] = "embedding"
    model: Annotated[
        str, Meta(description="the model of the index, named as for --embedder; empty: none")
    ] = ""


class GrepSettings(Settings, frozen=True, kw_only=True):
    """The grep predictor: grep passages and vectors under a distance threshold."""

    section: ClassVar[str] = "grep"
    vector_score_threshold: Annotated[
        float, Meta(gt=0.0, le=4.0, description="squared L2 distance at which a chunk is dropped")
    ] = 0.5
    vector_top_n: Annotated[int, Meta(ge=1, le=10_000, description="chunks from the vector branch")] = 40
    context_lines: Annotated[int, Meta(ge=0, le=100, description="lines before and after a match")] = 10
    ranking: Annotated[
        Literal["bm25", "none"], Meta(description="how grep passages are ranked before the fusion")
    ] = "bm25"
    rrf_k: Annotated[int, Meta(ge=1, le=10_000, description="constant k of RRF")] = 60


class QdrantSettings(Settings, frozen=True, kw_only=True):
    """The qdrant predictor: dense and sparse in one collection, weighted RRF."""

    section: ClassVar[str] = "qdrant"
    url: Annotated[str, Meta(description="URL of a Qdrant server; empty: embedded")] = ""
    fusion_weight: Annotated[float, Meta(ge=0.0, le=1.0, description="0: sparse only, 1: dense only")] = 0.5
    rrf_k: Annotated[int, Meta(ge=1, le=10_000, description="constant k of RRF")] = 60
    enable_hybrid: Annotated[bool, Meta(description="sparse vectors beside the dense ones")] = True


#: Every part's record, in the order in which docs and ``run.json`` list them.
PARTS: tuple[type[Settings], ...] = (
    IndexSettings,
    Bm25Settings,
    LocalSettings,
    HybridSettings,
    PageindexSettings,
    GrepSettings,
    QdrantSettings,
    RetrievalSettings,
    EmbeddingSettings,
    CacheSettings,
    LLMSettings,
    BenchmarkSettings,
)


class Setting(Record, frozen=True, kw_only=True):
    """One setting as flags, docs and error messages need it."""

    section: str
    name: str
    flag: str
    type: Any
    default: Any
    description: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"BRANCHRANK_{self.section}_{self.name}".upper()

    @property
    def allowed(self) -> str:
        """The allowed values in words, empty when anything of the type is allowed."""
        if self.choices:
            return ", ".join(self.choices)
        if self.low is not None and self.high is not None:
            return f"{self.low:g} to {self.high:g}"
        if self.low is not None:
            return f"at least {self.low:g}"
        return ""


@cache
def _hints(part: type[Settings]) -> dict[str, Any]:
    """The types of a part's fields with their ranges; evaluating them is slow."""
    return get_type_hints(part, include_extras=True)


def settings_of(part: type[Settings]) -> tuple[Setting, ...]:
    """Describe every setting of a part's record, in the order of its fields."""
    hints = _hints(part)
    described = []
    for field in msgspec.structs.fields(part):
        bare, meta = get_args(hints[field.name])
        low = meta.ge if meta.ge is not None else meta.gt
        high = meta.le if meta.le is not None else meta.lt
        flag = part.flag_names.get(field.name, f"--{part.section}-{field.name}".replace("_", "-"))
        described.append(
            Setting(
                section=part.section,
                name=field.name,
                flag=flag,
                type=bare,
                default=field.default,
                description=meta.description or "",
                low=low,
                high=high,
                choices=tuple(str(choice) for choice in get_args(bare)),
            )
        )
    return tuple(described)


class Resolved(Record, frozen=True, kw_only=True):
    """Every part's settings, and where each value came from (``"local.rrf_k" -> "flag --local-rrf-k"``)."""

    parts: dict[str, Settings]
    origins: dict[str, str]

    def part(self, record_type: type[S]) -> S:
        """The settings of one part."""
        value = self.parts[record_type.section]
        assert isinstance(value, record_type)
        return value


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; a missing file is empty. Raises :class:`UsageError` naming file and line."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML: {error}", remedy=f"correct {path}") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", remedy=f"make {path} readable") from None


def resolve(
    *,
    toml: Mapping[str, Any] | None = None,
    toml_name: str = "branchrank.toml",
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Resolved:
    """Merge the four layers into every part's settings.

    ``flags`` maps ``"section.name"`` to the values given on the command line. Raises one
    :class:`UsageError` that lists every wrong value with its origin and the allowed range.
    """
    toml = toml or {}
    environment = os.environ if environment is None else environment
    flags = flags or {}
    problems: list[str] = []
    parts: dict[str, Settings] = {}
    origins: dict[str, str] = {}
    for part in PARTS:
        table = toml.get(part.section, {})
        if not isinstance(table, Mapping):
            problems.append(f"{toml_name}: [{part.section}] must be a table")
            table = {}
        settings = settings_of(part)
        known = {setting.name for setting in settings}
        problems.extend(
            f"{toml_name}: [{part.section}] has no setting {name!r}" for name in table if name not in known
        )
        values: dict[str, Any] = {}
        for setting in settings:
            value, origin = _layered(setting, table, toml_name, environment, flags)
            origins[f"{part.section}.{setting.name}"] = origin
            try:
                values[setting.name] = checked(part, setting, value)
            except ValueError:
                allowed = f"; allowed: {setting.allowed}" if setting.allowed else ""
                problems.append(f"{setting.section}.{setting.name} = {value!r} ({origin}){allowed}")
        if len(values) == len(settings):
            parts[part.section] = part(**values)
    if problems:
        raise UsageError(
            "wrong settings:\n" + "\n".join(f"  - {problem}" for problem in problems),
            remedy="correct them; `branchrank settings` lists every name, default and range",
        )
    return Resolved(parts=parts, origins=origins)


def _layered(
    setting: Setting,
    table: Mapping[str, Any],
    toml_name: str,
    environment: Mapping[str, str],
    flags: Mapping[str, Any],
) -> tuple[Any, str]:
    """The value of the strongest layer that sets it, and that layer's name."""
    key = f"{setting.section}.{setting.name}"
    if key in flags:
        return flags[key], f"flag {setting.flag}"
    if setting.variable in environment:
        return environment[setting.variable], f"environment {setting.variable}"
    if setting.name in table:
        return table[setting.name], toml_name
    return setting.default, "default"


def checked(part: type[Settings], setting: Setting, value: object) -> Any:
    """Convert a value to the setting's type within its range, or raise ``ValueError``."""
    hint = _hints(part)[setting.name]
    if isinstance(value, str) and setting.type is bool:
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if value.lower() not in words:
            raise ValueError(value)
        value = words[value.lower()]
    try:
        return msgspec.convert(value, hint, strict=not isinstance(value, str))
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
