"""Settings of the parts that are not systems, each with its type, default, range and description."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from branchrank.addresses import hint_at
from branchrank.records import Returns
from branchrank.settings.base import SEVERAL, Settings, reaches
from branchrank.settings.systems import LOCAL, SYSTEM_PARTS

#: The number format in which a model computes.
Precision = Literal["float32", "bfloat16", "int8"]


class IndexSettings(Settings, frozen=True, kw_only=True):
    """The settings of an index."""

    section: ClassVar[str] = "index"
    title: ClassVar[str] = "Index"
    flag_names: ClassVar[dict[str, str]] = {
        "embedder": "--embedder",
        "embedder_precision": "--embedder-precision",
        "vector_store": "--vector-store",
        "token_vectors": "--token-vectors",
        "chunk_tokens": "--chunk-tokens",
        "chunk_overlap": "--chunk-overlap",
        "chroma_url": "--chroma-url",
        "embedding_url": "--embedding-url",
    }
    embedder: Annotated[
        str,
        reaches("embedding model"),
        Meta(
            description="embedding model: all-MiniLM-L6-v2 (from a package), a sentence-transformers name "
            "or path, openai:MODEL or ollama:MODEL (see --embedding-url), fake, or none: words only"
        ),
    ] = "nomic-ai/CodeRankEmbed"
    embedder_precision: Annotated[
        Precision,
        Meta(
            description="number format of all-MiniLM-L6-v2 and CodeRankEmbed; bfloat16 needs the extra "
            "openvino and a CPU with such instructions; int8: quickest, with less exact vectors"
        ),
    ] = "float32"
    embedding_url: Annotated[
        str, reaches("embedding endpoint"), Meta(description="base URL of the embedding endpoint")
    ] = ""
    embedding_revision: Annotated[
        str, reaches("embedding model"), Meta(description="model revision on the hub; empty: its default")
    ] = ""
    vector_store: Annotated[
        Literal["auto", "chroma", "exact"],
        Meta(
            description="vector store; chroma: its candidates, ordered by exact cosine; exact: every vector "
            "is compared; auto: exact up to 50,000 chunks, Chroma above"
        ),
    ] = "chroma"
    chroma_url: Annotated[
        str, reaches("Chroma server"), Meta(description="URL of a Chroma server; empty: embedded")
    ] = ""
    token_vectors: Annotated[
        Literal["none", "int8", "fp16"],
        Meta(
            description="token vectors kept in the index for late interaction; none: a candidate's are "
            "computed when a query first meets it"
        ),
    ] = "none"  # noqa: S105 - no secret
    chunk_tokens: Annotated[int, Meta(ge=32, le=8192, description="target size of a chunk in tokens")] = 256
    chunk_overlap: Annotated[int, Meta(ge=0, le=512, description="tokens that consecutive chunks share")] = 0

    @property
    def token_precision(self) -> Literal["int8", "fp16"] | None:
        """The precision of the token vectors that the index keeps; ``None`` where it keeps none."""
        return None if self.token_vectors == "none" else self.token_vectors  # noqa: S105 - no secret


class Bm25Settings(Settings, frozen=True, kw_only=True):
    """The BM25 analyzer and weights (Robertson & Zaragoza 2009; variants in Kamphuis et al. 2020)."""

    section: ClassVar[str] = "bm25"
    title: ClassVar[str] = "BM25"
    stemmer: Annotated[
        Literal["english", "porter", "none"], Meta(description="Snowball stemmer applied to each token")
    ] = "english"
    stop_words: Annotated[
        Literal["questions", "english", "none"],
        Meta(
            description="stop words; english: Lucene's list; "
            "questions: also drops question words (how, what, should)"
        ),
    ] = "questions"
    split_identifiers: Annotated[
        bool, Meta(description="also index the words inside camelCase, snake_case and dotted names")
    ] = True
    k1: Annotated[float, Meta(ge=0.0, le=10.0, description="term frequency saturation")] = 0.9
    b: Annotated[float, Meta(ge=0.0, le=1.0, description="length normalisation")] = 0.4
    idf: Annotated[
        Literal["lucene", "robertson", "atire", "bm25+", "bm25l"], Meta(description="BM25 variant")
    ] = "lucene"


class CacheSettings(Settings, frozen=True, kw_only=True):
    """The cache of embeddings and LLM decisions. It changes no vector, so it is not part of an index."""

    section: ClassVar[str] = "cache"
    title: ClassVar[str] = "Caches"
    redis_url: Annotated[
        str,
        reaches("Redis"),
        Meta(description="Redis that caches embeddings and LLM decisions; empty: SQLite files"),
    ] = ""


class LLMSettings(Settings, frozen=True, kw_only=True):
    """Settings of the LLM client."""

    section: ClassVar[str] = "llm"
    title: ClassVar[str] = "LLM client"
    flag_names: ClassVar[dict[str, str]] = {
        "on_failure": "--on-llm-failure",
        "max_calls": "--max-calls",
        "max_tokens": "--max-tokens",
        "record": "--llm-record",
        "replay": "--llm-replay",
        "price_table": "--price-table",
    }
    on_failure: Annotated[
        Literal["refuse", "fallback"],
        Meta(
            description="an endpoint that does not answer before the first question; refuse: an error, "
            "fallback: each of its stages takes its fallback"
        ),
    ] = "refuse"
    deadline_s: Annotated[
        float, Meta(gt=0, le=3600, description="seconds for one call, including retries and waits")
    ] = 60.0
    retries: Annotated[int, Meta(ge=0, le=10, description="retries of one call")] = 2
    retry_budget: Annotated[int, Meta(ge=0, le=1_000_000, description="retries in one run")] = 100
    concurrency: Annotated[int, Meta(ge=1, le=64, description="maximum concurrent calls")] = 4
    repeats: Annotated[int, Meta(ge=1, le=50, description="runs of each LLM predictor per question")] = 1
    max_calls: Annotated[int, Meta(ge=0, description="maximum LLM calls sent to a server; 0: no limit")] = 0
    max_tokens: Annotated[int, Meta(ge=0, description="maximum tokens spent at a server; 0: no limit")] = 0
    completion_tokens: Annotated[
        int, Meta(ge=16, le=100_000, description="maximum completion tokens per call")
    ] = 512
    record: Annotated[
        str, reaches("cassette"), Meta(description="cassette: the file in which every LLM call is recorded")
    ] = ""
    replay: Annotated[
        str, reaches("cassette"), Meta(description="cassette that answers every LLM call, without a server")
    ] = ""
    price_table: Annotated[
        str, reaches("price table"), Meta(description="TOML file with prices per million tokens and a date")
    ] = ""


class BenchmarkSettings(Settings, frozen=True, kw_only=True):
    """Settings of one benchmark run."""

    section: ClassVar[str] = "benchmark"
    title: ClassVar[str] = "Benchmark"
    flag_names: ClassVar[dict[str, str]] = {
        "mode": "--mode",
        "sample_size": "--sample-size",
        "sample_seed": "--sample-seed",
        "top_k": "--top-k",
        "returns": "--return",
        "passage_lines": "--passage-lines",
        "latency_sample": "--latency-sample",
        "latency_repeats": "--latency-repeats",
        "trace_depth": "--trace-depth",
        "question_text": "--question-text",
        "rows": "--rows",
        "delta": "--delta",
        "alpha": "--alpha",
        "primary": "--primary",
        "measures": "--measure",
        "baseline": "--baseline",
    }
    mode: Annotated[Literal["strict", "relaxed", "both"], Meta(description="scorings to report")] = "both"
    sample_size: Annotated[int, Meta(ge=0, description="number of questions to draw; 0: all")] = 0
    sample_seed: Annotated[int, Meta(ge=0, description="seed of the sample and of every random draw")] = 42
    top_k: Annotated[
        int,
        Meta(
            ge=1,
            le=1000,
            description="hits kept per question; where it is not set, more if a measure is deeper",
        ),
    ] = 10
    returns: Annotated[Returns, hint_at(LOCAL, "returns")[1]] = LOCAL.returns
    passage_lines: Annotated[int, hint_at(LOCAL, "passages.lines")[1]] | None = None
    latency_sample: Annotated[
        int, Meta(ge=0, description="questions timed one at a time; 0: no latency pass")
    ] = 60
    latency_repeats: Annotated[
        int, Meta(ge=1, le=1000, description="times that each of them is timed; the median is kept")
    ] = 1
    trace_depth: Annotated[
        int, Meta(ge=0, le=100_000, description="entries of each stage's list kept in a row")
    ] = 20
    question_text: Annotated[
        Literal["keep", "hash"],
        Meta(description="store the text of the questions in the run, or only its SHA-256"),
    ] = "keep"
    rows: Annotated[
        Literal["plain", "compact"],
        Meta(
            description="file of the rows; plain: rows.jsonl, compact: rows.jsonl.zst, compressed, and a "
            "report.html with the first 100 hits of each answer"
        ),
    ] = "plain"
    primary: Annotated[str, Meta(description="primary measure")] = "strict_hit@1"
    measures: Annotated[
        str,
        SEVERAL,
        Meta(
            description="another measure for every table, such as nDCG@10 or relaxed_RR, by its name in "
            "ir-measures; it gets an interval, and only the primary one is tested"
        ),
    ] = ""
    baseline: Annotated[
        str | tuple[str, ...],
        SEVERAL,
        Meta(
            description="predictor that the others are compared with, or several of them; all-pairs: each "
            "with every other; empty: the first"
        ),
    ] = ""
    delta: Annotated[float, Meta(gt=0, lt=1, description="largest difference that is equivalent")] = 0.05
    alpha: Annotated[float, Meta(gt=0, lt=1, description="family-wise error rate")] = 0.05


class EmbeddingSettings(Settings, frozen=True, kw_only=True):
    """The embeddings of the ``sqlite`` predictor; without a model it answers keyword queries only."""

    section: ClassVar[str] = "embedding"
    title: ClassVar[str] = "Embeddings of document search"
    model: Annotated[
        str,
        reaches("embedding model"),
        Meta(description="the model of the index, named as for --embedder; empty: none"),
    ] = ""


class EngineSettings(Settings, frozen=True, kw_only=True):
    """Where the work runs. It changes no result, so it is neither part of an index nor of a run's plan."""

    section: ClassVar[str] = "engine"
    title: ClassVar[str] = "Processes and machines"
    flag_names: ClassVar[dict[str, str]] = {
        "kind": "--engine",
        "jobs": "--jobs",
        "ray_address": "--ray-address",
        "ray_ship": "--ray-ship",
    }
    kind: Annotated[
        Literal["local", "ray"],
        Meta(description="where work is done; local: on this machine; ray: by actors of a Ray cluster"),
    ] = "local"
    jobs: Annotated[
        int,
        Meta(
            ge=0,
            le=4096,
            description="number of processes, or of Ray actors; 0: this process alone, or one actor for each "
            "CPU of the cluster",
        ),
    ] = 0
    threads: Annotated[
        int,
        Meta(
            ge=0,
            le=1024,
            description="threads of each process for embedding; 0: what one process would use",
        ),
    ] = 0
    ray_address: Annotated[
        str, Meta(description="HOST:PORT of a Ray cluster, or auto; empty: a cluster of this machine")
    ] = ""
    ray_ship: Annotated[
        bool, Meta(description="send the index and the corpus to the Ray actors, which read them otherwise")
    ] = False


#: The record of every part, in the order of the docs and of ``run.json``.
PARTS: tuple[type[Settings], ...] = (
    IndexSettings,
    Bm25Settings,
    *SYSTEM_PARTS,
    EmbeddingSettings,
    CacheSettings,
    LLMSettings,
    BenchmarkSettings,
    EngineSettings,
)
