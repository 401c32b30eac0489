"""The settings records that do not belong to a built-in system, with types, defaults and descriptions."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from branchrank.records import Returns
from branchrank.settings.addresses import hint_at
from branchrank.settings.base import SEVERAL, Settings, reaches
from branchrank.settings.systems import LOCAL, SYSTEM_PARTS

#: The number format that a model uses for computation.
Precision = Literal["float32", "bfloat16", "int8"]


class IndexSettings(Settings, frozen=True, kw_only=True):
    """Settings for splitting, embedding and storing the documents of an index."""

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
            description="embedding model: all-MiniLM-L6-v2 (included), the name or path of a "
            "sentence-transformers model, openai:MODEL or ollama:MODEL (with --embedding-url), fake (for "
            "tests), or none (search by words only)"
        ),
    ] = "nomic-ai/CodeRankEmbed"
    embedder_precision: Annotated[
        Precision,
        Meta(
            description="number format that all-MiniLM-L6-v2 and CodeRankEmbed use for computation; bfloat16 "
            "needs the extra openvino and a CPU with bfloat16 instructions; int8 is the fastest and the "
            "least exact"
        ),
    ] = "float32"
    embedding_url: Annotated[
        str,
        reaches("embedding endpoint"),
        Meta(description="base URL of the endpoint for openai:MODEL or ollama:MODEL"),
    ] = ""
    embedding_revision: Annotated[
        str,
        reaches("embedding model"),
        Meta(description="revision of the embedding model on its hub; empty: the default revision"),
    ] = ""
    vector_store: Annotated[
        Literal["auto", "chroma", "exact"],
        Meta(
            description="vector store; chroma: find candidates with Chroma, then sort them by exact cosine; "
            "exact: compare the query with every vector; auto: exact up to 100,000 chunks, else chroma"
        ),
    ] = "chroma"
    chroma_url: Annotated[
        str, reaches("Chroma server"), Meta(description="URL of a Chroma server; empty: embedded Chroma")
    ] = ""
    token_vectors: Annotated[
        Literal["none", "int8", "fp16"],
        Meta(
            description="number format of the token vectors in the index, for late interaction; none: "
            "compute the token vectors of a chunk when a query first retrieves it"
        ),
    ] = "none"  # noqa: S105 - no secret
    chunk_tokens: Annotated[int, Meta(ge=32, le=8192, description="target size of a chunk in tokens")] = 256
    chunk_overlap: Annotated[int, Meta(ge=0, le=512, description="tokens that consecutive chunks share")] = 0

    @property
    def token_precision(self) -> Literal["int8", "fp16"] | None:
        """The number format of the index's token vectors, or ``None`` if the index has no token vectors."""
        return None if self.token_vectors == "none" else self.token_vectors  # noqa: S105 - no secret


class Bm25Settings(Settings, frozen=True, kw_only=True):
    """Settings for the text analyzer and the term weights of BM25.

    BM25 is described by Robertson & Zaragoza (2009), and its variants by Kamphuis and others (2020).
    """

    section: ClassVar[str] = "bm25"
    title: ClassVar[str] = "BM25"
    stemmer: Annotated[
        Literal["english", "porter", "none"], Meta(description="Snowball stemmer applied to each token")
    ] = "english"
    stop_words: Annotated[
        Literal["questions", "english", "none"],
        Meta(
            description="stop words to ignore; english: Lucene's list; "
            "questions: Lucene's list and question words (how, what, should)"
        ),
    ] = "questions"
    split_identifiers: Annotated[
        bool, Meta(description="also index the words inside camelCase, snake_case and dotted names")
    ] = True
    k1: Annotated[float, Meta(ge=0.0, le=10.0, description="term frequency saturation")] = 0.9
    b: Annotated[float, Meta(ge=0.0, le=1.0, description="length normalization; 0: none, 1: full")] = 0.4
    idf: Annotated[
        Literal["lucene", "robertson", "atire", "bm25+", "bm25l"], Meta(description="BM25 variant")
    ] = "lucene"


class CacheSettings(Settings, frozen=True, kw_only=True):
    """Settings for the embedding cache and the LLM decision cache. These settings do not change results."""

    section: ClassVar[str] = "cache"
    title: ClassVar[str] = "Caches"
    redis_url: Annotated[
        str,
        reaches("Redis"),
        Meta(
            description="URL of a Redis server that caches embeddings and LLM decisions; empty: SQLite files"
        ),
    ] = ""


class LLMSettings(Settings, frozen=True, kw_only=True):
    """Settings for the LLM client."""

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
            description="what to do if the LLM endpoint does not respond when it is checked before the first "
            "question; refuse: stop with an error; fallback: use the fallback of each stage"
        ),
    ] = "refuse"
    deadline_s: Annotated[
        float,
        Meta(gt=0, le=3600, description="time limit for one call in seconds, including retries and waits"),
    ] = 60.0
    retries: Annotated[int, Meta(ge=0, le=10, description="maximum number of retries per call")] = 2
    retry_budget: Annotated[
        int,
        Meta(ge=0, le=1_000_000, description="maximum number of retries in a run, over all calls"),
    ] = 100
    concurrency: Annotated[int, Meta(ge=1, le=64, description="maximum number of concurrent calls")] = 4
    repeats: Annotated[
        int, Meta(ge=1, le=50, description="number of times that each LLM predictor answers each question")
    ] = 1
    max_calls: Annotated[
        int,
        Meta(ge=0, description="maximum number of calls to LLM servers, including retries; 0: no limit"),
    ] = 0
    max_tokens: Annotated[
        int, Meta(ge=0, description="maximum number of tokens in calls to LLM servers; 0: no limit")
    ] = 0
    completion_tokens: Annotated[
        int, Meta(ge=16, le=100_000, description="maximum number of completion tokens per call")
    ] = 512
    record: Annotated[
        str, reaches("cassette"), Meta(description="record every LLM call in this cassette file")
    ] = ""
    replay: Annotated[
        str,
        reaches("cassette"),
        Meta(description="answer every LLM call from this cassette, without a server"),
    ] = ""
    price_table: Annotated[
        str,
        reaches("price table"),
        Meta(description="TOML file with each model's prices per million tokens and the date of the prices"),
    ] = ""


class BenchmarkSettings(Settings, frozen=True, kw_only=True):
    """Settings for one benchmark run."""

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
    mode: Annotated[Literal["strict", "relaxed", "both"], Meta(description="hit rates to report")] = "both"
    sample_size: Annotated[int, Meta(ge=0, description="number of questions to sample; 0: all")] = 0
    sample_seed: Annotated[
        int, Meta(ge=0, description="random seed for the sample and the statistical tests")
    ] = 42
    top_k: Annotated[
        int,
        Meta(
            ge=1,
            le=1000,
            description="number of hits stored per question; measures such as R@100 raise the default",
        ),
    ] = 10
    returns: Annotated[Returns, hint_at(LOCAL, "returns")[1]] = LOCAL.returns
    passage_lines: Annotated[int, hint_at(LOCAL, "passages.lines")[1]] | None = None
    latency_sample: Annotated[
        int, Meta(ge=0, description="number of questions in the latency pass; 0: no latency pass")
    ] = 60
    latency_repeats: Annotated[
        int,
        Meta(
            ge=1,
            le=1000,
            description="number of runs of each question in the latency pass; the median latency is used",
        ),
    ] = 1
    trace_depth: Annotated[
        int,
        Meta(ge=0, le=100_000, description="number of candidates that are stored for each stage of a query"),
    ] = 20
    question_text: Annotated[
        Literal["keep", "hash"],
        Meta(description="keep: store the questions' text in the run; hash: store each question's SHA-256"),
    ] = "keep"
    rows: Annotated[
        Literal["plain", "compact"],
        Meta(
            description="format of the rows; plain: rows.jsonl; compact: rows.jsonl.zst (compressed), and "
            "only the first 100 hits of each question in report.html"
        ),
    ] = "plain"
    primary: Annotated[
        str,
        Meta(description="primary measure for the significance tests, such as strict_hit@1 or nDCG@10"),
    ] = "strict_hit@1"
    measures: Annotated[
        str,
        SEVERAL,
        Meta(
            description="additional measure for every table, by its name in ir-measures, such as nDCG@10 or "
            "relaxed_RR; shown with a confidence interval, but not tested"
        ),
    ] = ""
    baseline: Annotated[
        str | tuple[str, ...],
        SEVERAL,
        Meta(
            description="predictor with which the others are compared, or all-pairs to compare every pair; "
            "default: the first predictor"
        ),
    ] = ""
    delta: Annotated[
        float,
        Meta(
            gt=0,
            lt=1,
            description="equivalence margin: the smallest difference between two predictors that matters",
        ),
    ] = 0.05
    alpha: Annotated[
        float, Meta(gt=0, lt=1, description="family-wise error rate of a run's significance tests")
    ] = 0.05


class EmbeddingSettings(Settings, frozen=True, kw_only=True):
    """Settings for the ``sqlite`` predictor, which embeds texts for semantic and hybrid search."""

    section: ClassVar[str] = "embedding"
    title: ClassVar[str] = "Embeddings for document search"
    model: Annotated[
        str,
        reaches("embedding model"),
        Meta(description="embedding model of the index, as in --embedder; empty: keyword search only"),
    ] = ""


class EngineSettings(Settings, frozen=True, kw_only=True):
    """Settings for worker processes and Ray clusters. These settings do not change results."""

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
        Meta(description="where the work runs; local: on this machine; ray: in actors of a Ray cluster"),
    ] = "local"
    jobs: Annotated[
        int,
        Meta(
            ge=0,
            le=4096,
            description="number of worker processes or Ray actors; 0: no worker processes (with Ray: one "
            "actor for each CPU of the cluster)",
        ),
    ] = 0
    threads: Annotated[
        int,
        Meta(
            ge=0,
            le=1024,
            description="number of embedding threads per process; 0: every process uses the main "
            "process's default",
        ),
    ] = 0
    ray_address: Annotated[
        str,
        Meta(
            description="HOST:PORT of a Ray cluster, or auto (find a running cluster); empty: start a "
            "cluster on this machine"
        ),
    ] = ""
    ray_ship: Annotated[
        bool,
        Meta(
            description="send the index and the corpus to the Ray actors, instead of reading them from a "
            "shared disk"
        ),
    ] = False


#: All settings records, in the order in which the docs and ``run.json`` list them.
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
