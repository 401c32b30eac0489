"""A folder in which the commands of the pages make sense: the files and servers that their readers have."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from qdrant_client import QdrantClient, models
from support.agent_policies import greps
from support.artifacts import paragraphs, write_objects
from support.commands import invoke, write_lines
from support.doc_blocks import ROOT, blocks
from support.embedding_servers import serving as embedding_server
from support.fake_qdrant import fake_qdrant
from support.scripted_llm import Action, Chat, ScriptedLLM, first_shown, say
from support.worlds import PAGES as DOCUMENTS
from support.worlds import write_pages

from branchrank import Workspace

MINILM = ("--embedder", "all-MiniLM-L6-v2", "--quiet")

#: Links with texts of their own, from which questions are mined.
FAQ = """# Questions

Read about [choosing how hot the water is](guide/brewing.md#choosing-a-temperature), about
[how many minutes tea needs](guide/brewing.md#steeping-time), about
[getting rid of brown marks](guide/cleaning.md#removing-stains), about
[moving to a newer version](install.rst#upgrading), about
[memory that the daemon needs](install.rst#requirements), about
[starting a brew from a program](reference/api.md#post-brew), and about
[keeping the leaves dry](guide.md#storage).
"""

#: HTML pages with the lines that docs/first-comparison.md names.
SITE = {
    "FAQ.html": '<body><h1>FAQ</h1>\n<p>See <a href="parsing.html#bad">files with broken markup</a>.</p>\n',
    "parsing.html": "<body><h1>Parsing</h1>\n<h2 id=bad>Recovery</h2>\n"
    + "<p>no_network: offline</p>\n" * 130,
}

GUIDE = "# Guide\n\nTea is made of leaves.\n\n## Storage\n\nKeep leaves in a dry tin.\n"


def make_world(folder: Path) -> Path:
    """A checkout with the indexed sample and a finished run, and beside it what the examples name.

    ``docs``, ``path/to/docs`` and the like are the few pages of ``support.worlds``.
    """
    checkout = folder / "checkout"
    shutil.copytree(ROOT / "data" / "sample", checkout / "data" / "sample")
    shutil.copy(ROOT / "data" / "branchrank.toml", checkout / "data")
    with (checkout / "data" / "branchrank.toml").open("a", encoding="utf-8") as config:
        config.write("\n" + block("docs/sqlite.md", "toml"))
    holidays = checkout / "data" / "sample" / "corpus" / "leave" / "holidays.md"
    write_file(holidays, "# Holidays\n" + 39 * "\n" + "Up to five days carry over.\n" * 6)
    shorten(checkout / "data" / "sample" / "questions.jsonl")
    (checkout / "branchrank-demo").symlink_to("data")
    shutil.copy(ROOT / "examples" / "titles.py", checkout)
    shutil.copytree(ROOT / "reports" / "examples" / "formats", checkout / "reports" / "examples" / "formats")
    for module in [*blocks("docs/pipelines.md", "python"), *blocks("docs/first-comparison.md", "python")]:
        if name := re.match(r"# (\w+\.py): ", module.text):
            write_file(checkout / name[1], module.text)
    shared = folder / "shared"
    for documents in (
        checkout / "docs",
        checkout / "django",
        checkout / "sqlalchemy",
        checkout / "lxml",
        checkout / "werkzeug",
        checkout / "data" / "formats" / "docs",
        checkout / "path" / "to" / "source",
        checkout / "path" / "to" / "docs",
        folder / "home" / "my-project" / "docs",
        folder / "home" / "projects" / "handbook" / "docs",
        shared / "corpora" / "symfony-docs",
    ):
        write_pages(documents, {**DOCUMENTS, "faq.md": FAQ, "guide.md": GUIDE})
    for name in ("questions.jsonl", "my-questions.jsonl", "handbook-questions.jsonl"):
        write_lines(checkout / name)
    project = folder / "home" / "my-project"
    write_pages(project / "path" / "to" / "docs")
    for name in ("questions.jsonl", "my-questions.jsonl"):
        write_lines(project / name)
    write_lines(shared / "questions" / "symfony-dev.jsonl")
    write_pages(checkout / "site", SITE)
    write_file(checkout / "experiment.toml", block("docs/experiments.md", "toml"))
    write_file(checkout / "scifact.toml", block("docs/exchange.md", "toml"))
    write_file(checkout / "prices.toml", block("docs/llm.md", "toml"))
    write_file(checkout / "searches.csv", "query,count,url\nwhich days carry over,9,leave/holidays.md\n")
    write_labels(checkout)
    write_trec(checkout)
    write_beir(checkout / "scifact")
    write_theirs(checkout)
    return checkout


def index_world(checkout: Path) -> None:
    """Index the sample and ``docs``, benchmark the sample, and so on; from ``checkout``."""
    for words in (
        ("index", *MINILM),
        ("index", "docs", "--data-dir", "data/mine", *MINILM),
        ("benchmark", "--predictor", "all", "--latency-sample", 0, "--quiet"),
    ):
        result = invoke(*words)
        assert result.exit_code == 0, result.output
    fill_qdrant(checkout / "data" / "qdrant", qdrant_points(checkout))
    write_lines(checkout / "data" / "mine" / "benchmark" / "questions.jsonl")


def qdrant_points(checkout: Path) -> list[models.PointStruct]:
    """Some chunks of the sample as points of a collection of somebody's own."""
    with Workspace.open(checkout / "data", settings={"index.vector_store": "exact"}) as workspace:
        chunks = list(workspace.index.chunks.values())[:25]
        rows = workspace.index.embedder.embed_documents([chunk.text for chunk in chunks])
    payloads = [{"file_path": chunk.source, "text": chunk.text} for chunk in chunks]
    pairs = enumerate(zip(rows.tolist(), payloads, strict=True))
    return [models.PointStruct(id=n, vector=row, payload=payload) for n, (row, payload) in pairs]


def fill_qdrant(folder: Path, points: list[models.PointStruct]) -> None:
    """The collection ``docs`` of qdrant-client's local mode."""
    # Without this option qdrant-client opens a database that it never closes; Python 3.13 warns of it.
    client = QdrantClient(path=str(folder), force_disable_check_same_thread=True)
    client.create_collection("docs", models.VectorParams(size=384, distance=models.Distance.COSINE))
    client.upsert("docs", points)
    client.close()


def shorten(path: Path) -> None:
    """Keep every 30th question of the sample, and the one that pages name."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for number, line in enumerate(lines) if number % 30 == 0 or '"br-017"' in line]
    path.write_text("".join(kept), encoding="utf-8")


def block(page: str, language: str) -> str:
    """The first block of a page in a language."""
    return blocks(page, language)[0].text


def write_file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def write_labels(folder: Path) -> None:
    """What two people say of the same passage."""
    passage = {
        "source_file": "index.rst",
        "line_start": 4,
        "line_end": 4,
        "answer_digest": "sha256:" + 64 * "0",
    }
    for name, annotator in (("labeled.jsonl", "ada"), ("labeled-bob.jsonl", "bob")):
        label = {**passage, "label": "yes", "annotator": annotator}
        gold = {"source_file": "index.rst", "answer_line_start": 4, "answer_line_end": 4}
        write_objects(folder / name, [{"id": "q", "question": "what brews tea", **gold, "labels": [label]}])


def write_trec(folder: Path) -> None:
    write_file(folder / "qrels.txt", "q1 0 a 1\nq2 0 b 1\n")
    for name in ("other.run", "local.run", "bm25.run", "dense.run", "hybrid.run"):
        write_file(folder / name, "q1 Q0 a 1 2.0 x\nq1 Q0 b 2 1.0 x\nq2 Q0 a 1 2.0 x\n")


def write_beir(folder: Path) -> None:
    documents = {"d1": "Green tea wants water below boiling.", "d2": "Descale the boiler with vinegar."}
    lines = [{"_id": key, "title": text.split()[0], "text": text} for key, text in documents.items()]
    write_objects(folder / "corpus.jsonl", lines)
    write_objects(folder / "queries.jsonl", [{"_id": "q1", "text": "how hot is green tea"}])
    write_file(folder / "qrels" / "test.tsv", "query-id\tcorpus-id\tscore\nq1\td1\t1\n")


def write_theirs(folder: Path) -> None:
    """Chunks, vectors and a tree of other programs."""
    chunks = [dict(each) for each in paragraphs(DOCUMENTS)]
    lines = [each.pop("lines") for each in chunks]
    write_objects(folder / "their-data" / "chunks.jsonl", chunks)
    own = [
        {"id": f"c{n}", "source": each["file_path"], "text": each["text"], "line_start": a, "line_end": b}
        for n, (each, (a, b)) in enumerate(zip(chunks, lines, strict=True))
    ]
    write_objects(folder / "their-chunks.jsonl", own)
    write_file(folder / "guide.md", GUIDE)
    storage = {"title": "Storage", "node_id": "0001", "line_num": 5, "text": "## Storage"}
    tree = {"title": "Guide", "node_id": "0000", "line_num": 1, "text": "# Guide", "nodes": [storage]}
    write_file(folder / "tree.json", json.dumps({"doc_name": "guide", "line_count": 7, "structure": [tree]}))


def answer(chat: Chat, number: int) -> Action:
    """An LLM that ranks in the order shown, asks about a section's longest line, and summarizes in a word.

    With tools, it searches with grep and cites what it found.
    """
    if "tools" in chat.body:
        return greps(chat, number)
    if chat.entries:
        return first_shown(chat, number)
    section = chat.prompt.partition("<section>\n")[2].partition("\n</section>")[0]
    quote = max((re.sub(r"^\s*\d+\W*", "", line) for line in section.splitlines()), key=len, default="")
    questions = [{"question": f"where does it say what part {number} needs", "quote": quote}]
    return say(json.dumps({"questions": questions, "summary": "Tea."}))


@contextmanager
def servers(points: list[models.PointStruct]) -> Iterator[dict[str, str]]:
    """The servers that pages name, by ``host:port``, each with the ``host:port`` where it is here."""
    with ExitStack() as stack:
        llm = stack.enter_context(ScriptedLLM(answer, ("qwen2.5-7b-instruct", "smollm2", "NAME")))
        embeddings = stack.enter_context(embedding_server())
        qdrant = stack.enter_context(fake_qdrant())
        layout = {"vectors": {"size": 384, "distance": "Cosine"}}
        qdrant.collections = {"docs": {"layout": layout, "points": {p.id: p.model_dump() for p in points}}}
        found = {
            "8080": llm.base_url,
            "8471": llm.base_url,
            "8081": embeddings.url,
            "11434": embeddings.url,
            "6333": qdrant.url,
        }
        yield {f"127.0.0.1:{port}": re.sub(r"^http://|/v1$", "", url) for port, url in found.items()}
