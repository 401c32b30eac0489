"""What can be set: one frozen record per part, with each setting's type, default, range and meaning."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from branchrank.records import Record


def reaches(role: str) -> Meta:
    """Mark a setting whose value leads out of the workspace: to a host, a model or a file.

    A run directory may not choose such a value; the person who resumes the run names it.
    """
    return Meta(extra={"reaches": role})


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
        reaches("embedding model"),
        Meta(
            description="embedding model: all-MiniLM-L6-v2 (from a package), a sentence-transformers name "
            "or path, openai:MODEL or ollama:MODEL (see --embedding-url), or fake"
        ),
    ] = "nomic-ai/CodeRankEmbed"
    embedding_url: Annotated[
        str, reaches("embedding endpoint"), Meta(description="base URL of the embedding endpoint")
    ] = ""
    embedding_revision: Annotated[
        str, reaches("embedding model"), Meta(description="model revision on the hub; empty: its default")
    ] = ""
    vector_store: Annotated[
        Literal["auto", "chroma", "exact"],
        Meta(description="who searches the vectors; auto: exactly up to 50,000 chunks, Chroma above"),
    ] = "auto"
    chroma_url: Annotated[
        str, reaches("Chroma server"), Meta(description="URL of a Chroma server; empty: embedded")
    ] = ""
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
    cross_encoder: Annotated[
        str, reaches("cross-encoder"), Meta(description="sentence-transformers CrossEncoder model or path")
    ] = ""
    base_url: Annotated[
        str, reaches("LLM endpoint"), Meta(description="OpenAI-compatible endpoint of the reranking LLM")
    ] = ""
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
    base_url: Annotated[
        str, reaches("LLM endpoint"), Meta(description="OpenAI-compatible endpoint of the tree-search LLM")
    ] = ""
    model: Annotated[str, Meta(description="model of the tree-search LLM")] = ""


class CacheSettings(Settings, frozen=True, kw_only=True):
    """Where embeddings and LLM decisions are remembered. It changes no vector: no part of an index."""

    section: ClassVar[str] = "cache"
    redis_url: Annotated[
        str,
        reaches("Redis"),
        Meta(description="Redis that remembers embeddings and LLM decisions; empty: SQLite files"),
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
    record: Annotated[str, reaches("cassette"), Meta(description="cassette file that keeps every call")] = ""
    replay: Annotated[
        str, reaches("cassette"), Meta(description="cassette file that answers every call, without a server")
    ] = ""
    price_table: Annotated[
        str, reaches("price table"), Meta(description="TOML file with prices per million tokens and a date")
    ] = ""


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
        Meta(description="keep the wording of the questions in the directory of the run, or its SHA-256"),
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
        str,
        reaches("embedding model"),
        Meta(description="the model of the index, named as for --embedder; empty: none"),
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
    url: Annotated[
        str, reaches("Qdrant server"), Meta(description="URL of a Qdrant server; empty: embedded")
    ] = ""
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
