"""The settings records that do not belong to a built-in system, with types, defaults and descriptions."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from branchrank.core.records import SEED, Returns
from branchrank.core.settings.fields import SEVERAL, Settings, hint_at, reaches
from branchrank.core.settings.systems import LOCAL, SYSTEM_PARTS

#: The number format that a model uses for computation.
Precision = Literal["float32", "bfloat16", "int8"]
#: The default chunker.
SECTIONS = "sections"
#: The settings of what an embedding model gets besides the texts.
SENT = ("query_prefix", "document_prefix", "query_model", "input_type")


class IndexSettings(Settings, frozen=True, kw_only=True):
    """Settings for splitting, embedding and storing the documents of an index.

    Attributes:
        embedder: embedding model: all-MiniLM-L6-v2 (included), the name or path of a sentence-transformers
            model, openai:MODEL or ollama:MODEL (with --embedding-url), fake (for tests), or none (search by
            words only)
        embedder_precision: number format that all-MiniLM-L6-v2 and CodeRankEmbed use for computation;
            bfloat16 needs the extra openvino and a CPU with bfloat16 instructions; int8 is the fastest and
            the least exact
        embedding_url: base URL of the endpoint for openai:MODEL or ollama:MODEL; empty: for openai:MODEL,
            --hybrid-base-url, else OpenAI; for ollama:MODEL, this machine
        embedding_revision: revision of the embedding model on its hub; empty: the default revision
        query_prefix: text before each query; empty: none; default: the prefix of the model, or of its family
        document_prefix: text before each chunk; empty: none; default: the prefix of the model, or of its
            family
        query_model: name that openai:MODEL sends instead of MODEL with queries, for a server that tells
            queries and documents apart by it; the family's prefixes are left out
        input_type: send the input_type query or passage to the server of openai:MODEL, for a server that sets
            the prefixes; the family's prefixes are left out
        vector_store: vector store; chroma: find candidates with Chroma, then sort them by exact cosine;
            exact: compare the query with every vector; auto: exact up to 100,000 chunks, else chroma
        chroma_url: URL of a Chroma server; empty: embedded Chroma
        token_vectors: number format of the token vectors in the index, for late interaction; auto: int8 (or
            fp16 for a model that needs it), if the model computes token vectors and they need at most 2 GB;
            none: compute the token vectors of a chunk when a query first retrieves it
        chunker: how documents are divided into chunks: sections (by the headings), window, recursive,
            sentences, document, langchain:CLASS, llamaindex:CLASS, chonkie:CLASS, the name of a chunker from
            an installed package, or MODULE:OBJECT
        chunk_tokens: target size of a chunk in tokens
        chunk_overlap: tokens that consecutive chunks share
    """

    section: ClassVar[str] = "index"
    title: ClassVar[str] = "Index"
    short_flags: ClassVar[bool] = True
    flag_names: ClassVar[dict[str, str]] = {"embedding_revision": "--index-embedding-revision"}
    embedder: Annotated[str, reaches("embedding model")] = "nomic-ai/CodeRankEmbed"
    embedder_precision: Precision = "float32"
    embedding_url: Annotated[str, reaches("embedding endpoint")] = ""
    embedding_revision: Annotated[str, reaches("embedding model")] = ""
    query_prefix: str | None = None
    document_prefix: str | None = None
    query_model: Annotated[str, reaches("embedding model")] = ""
    input_type: bool = False
    vector_store: Literal["auto", "chroma", "exact"] = "chroma"
    chroma_url: Annotated[str, reaches("Chroma server")] = ""
    token_vectors: Literal["auto", "none", "int8", "fp16"] = "auto"  # noqa: S105 - no secret
    chunker: Annotated[str, reaches("chunker")] = SECTIONS
    chunk_tokens: Annotated[int, Meta(ge=32, le=8192)] = 256
    chunk_overlap: Annotated[int, Meta(ge=0, le=512)] = 0

    @property
    def token_precision(self) -> Literal["int8", "fp16"] | None:
        """The requested number format of token vectors, or ``None`` if no format is requested."""
        return self.token_vectors if self.token_vectors in ("int8", "fp16") else None

    @property
    def chooses_tokens(self) -> bool:
        """Whether BranchRank decides if the index has token vectors."""
        return self.token_vectors == "auto"  # noqa: S105 - no secret

    @property
    def sent(self) -> dict[str, Any]:
        """The settings of what the model gets besides the texts, without those at their defaults."""
        return {name: value for name, value in self.table.items() if name in SENT}

    @property
    def table(self) -> dict[str, Any]:
        """The settings as a table, without the defaults of settings that older versions did not record."""
        table, default = msgspec.to_builtins(self), IndexSettings()
        newer = ("chunker", *SENT)
        return {
            name: each for name, each in table.items() if name not in newer or each != getattr(default, name)
        }


#: The names of Snowball's stemmers.
Stemmer = Literal[
    "english", "porter", "none", "arabic", "armenian", "basque", "catalan", "czech", "danish", "dutch",
    "dutch_porter", "esperanto", "estonian", "finnish", "french", "german", "greek", "hindi", "hungarian",
    "indonesian", "irish", "italian", "lithuanian", "nepali", "norwegian", "persian", "polish", "portuguese",
    "romanian", "russian", "serbian", "sesotho", "spanish", "swedish", "tamil", "turkish", "yiddish",
]  # fmt: skip


class Bm25Settings(Settings, frozen=True, kw_only=True):
    """Settings for the text analyzer and the term weights of BM25.

    BM25 is described by Robertson & Zaragoza (2009), and its variants by Kamphuis and others (2020).

    Attributes:
        stemmer: language of the documents, whose Snowball stemmer is applied to each token
        stop_words: stop words to ignore; english: Lucene's list; questions: the list of the stemmer's
            language, for English Lucene's list and question words (how, what, should)
        split_identifiers: also index the words inside camelCase, snake_case and dotted names
        k1: term frequency saturation
        b: length normalization; 0: none, 1: full
        idf: BM25 variant
    """

    section: ClassVar[str] = "bm25"
    title: ClassVar[str] = "BM25"
    stemmer: Stemmer = "english"
    stop_words: Literal["questions", "english", "none"] = "questions"
    split_identifiers: bool = True
    k1: Annotated[float, Meta(ge=0.0, le=10.0)] = 0.9
    b: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.4
    idf: Literal["lucene", "robertson", "atire", "bm25+", "bm25l"] = "lucene"


class CacheSettings(Settings, frozen=True, kw_only=True):
    """Settings for the embedding cache and the LLM decision cache. These settings do not change results.

    Attributes:
        redis_url: URL of a Redis server that caches embeddings and LLM decisions; empty: SQLite files
    """

    section: ClassVar[str] = "cache"
    title: ClassVar[str] = "Caches"
    redis_url: Annotated[str, reaches("Redis")] = ""


class LLMSettings(Settings, frozen=True, kw_only=True):
    """Settings for the LLM client.

    Attributes:
        on_failure: what to do if the LLM endpoint does not respond when it is checked before the first
            question; refuse: stop with an error; fallback: use the fallback of each stage
        deadline_s: time limit for one call in seconds, including retries and waits
        retries: maximum number of retries per call
        retry_budget: maximum number of retries in a run, over all calls
        concurrency: maximum number of concurrent calls
        repeats: number of times that each LLM predictor answers each question
        max_calls: maximum number of calls to LLM servers, including retries; 0: no limit
        max_tokens: maximum number of tokens in calls to LLM servers; 0: no limit
        completion_tokens: maximum number of completion tokens per call
        record: record every LLM call in this cassette file
        replay: answer every LLM call from this cassette, without a server
        price_table: TOML file with each model's prices per million tokens and the date of the prices
    """

    section: ClassVar[str] = "llm"
    title: ClassVar[str] = "LLM client"
    flag_names: ClassVar[dict[str, str]] = {
        "on_failure": "--on-llm-failure",
        "max_calls": "--max-calls",
        "max_tokens": "--max-tokens",
        "price_table": "--price-table",
    }
    on_failure: Literal["refuse", "fallback"] = "refuse"
    deadline_s: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    retries: Annotated[int, Meta(ge=0, le=10)] = 2
    retry_budget: Annotated[int, Meta(ge=0, le=1_000_000)] = 100
    concurrency: Annotated[int, Meta(ge=1, le=64)] = 4
    repeats: Annotated[int, Meta(ge=1, le=50)] = 1
    max_calls: Annotated[int, Meta(ge=0)] = 0
    max_tokens: Annotated[int, Meta(ge=0)] = 0
    completion_tokens: Annotated[int, Meta(ge=16, le=100_000)] = 512
    record: Annotated[str, reaches("cassette")] = ""
    replay: Annotated[str, reaches("cassette")] = ""
    price_table: Annotated[str, reaches("price table")] = ""


class BenchmarkSettings(Settings, frozen=True, kw_only=True):
    """Settings for one benchmark run.

    Attributes:
        mode: hit rates to report
        sample_size: number of questions to sample; 0: all
        sample_seed: random seed for the sample and the statistical tests
        top_k: number of hits stored per question; measures such as R@100 raise the default
        latency_sample: number of questions in the latency pass; 0: no latency pass
        predictor_timeout: seconds that your own class or pipeline has for one query
        latency_repeats: number of runs of each question in the latency pass; the median latency is used
        reanchor: follow gold whose text moved, in the run only; questions whose gold changed are set apart
        trace_depth: number of candidates that are stored for each stage of a query
        question_text: keep: store the questions' text in the run; hash: store each question's SHA-256
        rows: format of the rows; plain: rows.jsonl; compact: rows.jsonl.zst (compressed), and only the first
            100 hits of each question in report.html
        primary: primary measure for the significance tests, such as strict_hit@1 or nDCG@10
        measures: additional measure for every table, by its name in ir-measures, such as nDCG@10 or
            relaxed_RR; shown with a confidence interval, but not tested
        baseline: predictor with which the others are compared, or all-pairs to compare every pair; default:
            the first predictor
        delta: equivalence margin: the smallest difference between two predictors that matters
        alpha: family-wise error rate of a run's significance tests
    """

    section: ClassVar[str] = "benchmark"
    title: ClassVar[str] = "Benchmark"
    short_flags: ClassVar[bool] = True
    flag_names: ClassVar[dict[str, str]] = {"returns": "--return", "measures": "--measure"}
    mode: Literal["strict", "relaxed", "both"] = "both"
    sample_size: Annotated[int, Meta(ge=0)] = 0
    sample_seed: Annotated[int, Meta(ge=0)] = SEED
    top_k: Annotated[int, Meta(ge=1, le=1000)] = 10
    returns: Annotated[Returns, hint_at(LOCAL, "returns")[1]] = LOCAL.returns
    passage_lines: Annotated[int, hint_at(LOCAL, "passages.lines")[1]] | None = None
    latency_sample: Annotated[int, Meta(ge=0)] = 60
    predictor_timeout: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    latency_repeats: Annotated[int, Meta(ge=1, le=1000)] = 1
    reanchor: bool = False
    trace_depth: Annotated[int, Meta(ge=0, le=100_000)] = 20
    question_text: Literal["keep", "hash"] = "keep"
    rows: Literal["plain", "compact"] = "plain"
    primary: str = "strict_hit@1"
    measures: Annotated[str, SEVERAL] = ""
    baseline: Annotated[str | tuple[str, ...], SEVERAL] = ""
    delta: Annotated[float, Meta(gt=0, lt=1)] = 0.05
    alpha: Annotated[float, Meta(gt=0, lt=1)] = 0.05


class AnchoringSettings(Settings, frozen=True, kw_only=True):
    """Settings for finding the lines of a text that a retriever of your own returned.

    Attributes:
        min_similarity: smallest share of a text's words that its lines must contain
    """

    section: ClassVar[str] = "anchoring"
    title: ClassVar[str] = "Anchoring texts"
    min_similarity: Annotated[float, Meta(ge=0.5, le=1.0)] = 0.9


class EmbeddingSettings(Settings, frozen=True, kw_only=True):
    """Settings for the ``sqlite`` predictor, which embeds texts for semantic and hybrid search.

    Attributes:
        model: embedding model of the index, as in --embedder; empty: the index's own model
    """

    section: ClassVar[str] = "embedding"
    title: ClassVar[str] = "Embeddings for document search"
    model: Annotated[str, reaches("embedding model")] = ""


class EngineSettings(Settings, frozen=True, kw_only=True):
    """Settings for worker processes and Ray clusters. These settings do not change results.

    Attributes:
        kind: where the work runs; local: on this machine; ray: in actors of a Ray cluster
        jobs: number of worker processes or Ray actors; 0: no worker processes (with Ray: one actor for each
            CPU of the cluster)
        threads: number of embedding threads per process; 0: every process uses the main process's default
        ray_address: HOST:PORT of a Ray cluster, or auto (find a running cluster); empty: start a cluster on
            this machine
        ray_ship: send the index and the corpus to the Ray actors, instead of reading them from a shared disk
    """

    section: ClassVar[str] = "engine"
    title: ClassVar[str] = "Processes and machines"
    short_flags: ClassVar[bool] = True
    flag_names: ClassVar[dict[str, str]] = {"kind": "--engine", "threads": "--engine-threads"}
    kind: Literal["local", "ray"] = "local"
    jobs: Annotated[int, Meta(ge=0, le=4096)] = 0
    threads: Annotated[int, Meta(ge=0, le=1024)] = 0
    ray_address: str = ""
    ray_ship: bool = False


#: All settings records, in the order in which the docs and ``run.json`` list them.
PARTS: tuple[type[Settings], ...] = (
    IndexSettings,
    Bm25Settings,
    *SYSTEM_PARTS,
    AnchoringSettings,
    EmbeddingSettings,
    CacheSettings,
    LLMSettings,
    BenchmarkSettings,
    EngineSettings,
)
