"""Methods that build, check, summarize, export and import the PageIndex tree of a workspace.

An LLM summarizes the nodes of a tree from the leaves up.

1. The leaves are summarized first, then the nodes whose children are all summarized.
2. A node's prompt contains its title, the start of its own text and its children's summaries. The calls for
   nodes of equal height run concurrently.
3. Each finished call is cached under a digest of the request, so that an interrupted summarization can be
   resumed. After an edit, only nodes whose prompts changed are summarized again.
4. If a call fails, the node keeps its extractive summary, and the failure is counted.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from branchrank.core.errors import InputError, UsageError
from branchrank.core.io import text_files
from branchrank.core.io.files import read_beneath, reading_errors, write_bytes, write_jsonl
from branchrank.core.io.progress import Progress, no_progress
from branchrank.core.records import SEED, Node, Record
from branchrank.documents.loading import Corpus, load_corpus
from branchrank.documents.pageindex_json import (
    encode_document,
    export_document,
    import_document,
    import_nodes,
)
from branchrank.documents.reading import read_document
from branchrank.documents.tree_build import build_nodes, with_summaries
from branchrank.documents.tree_nodes import Tree, check_nodes
from branchrank.index.adopted_files import given_nodes
from branchrank.index.generations import NODES, build_lock, replace_link
from branchrank.index.workspace_folder import AnyPath, WorkspaceFolder
from branchrank.search.llm.ledger import Spent
from branchrank.search.llm.prompts import excerpt, read_text, summary_messages
from branchrank.search.llm.request import CallContext, LLMReply, LLMRequest
from branchrank.search.llm.session import LLMWork, open_work

#: The file in the folder ``pageindex`` that a tree is written to.
_BUILT = "tree.jsonl"
STAGE = "summary"
_TEXT_CHARS = 4000
_CHILDREN = 20
_SUMMARY_CHARS = 600
_SUMMARY_TOKENS = 160


class BuiltTree(Record, frozen=True, kw_only=True):
    """The file to which a tree was written, the number of nodes in the tree, and notes for the user."""

    path: Path
    nodes: int
    notes: tuple[str, ...] = ()


class WorkspaceTree:
    """The methods for one workspace's PageIndex tree. No index is needed."""

    def __init__(self, folder: WorkspaceFolder) -> None:
        self._folder = folder

    def build(self, output: AnyPath | None = None) -> BuiltTree:
        """Build the tree of the corpus without an index, and write its nodes to the file ``output``.

        By default, ``pageindex/nodes.jsonl`` in the workspace leads to the nodes until an index is built.
        Raises :class:`~branchrank.core.errors.UsageError` without ``output`` if ``branchrank.toml`` names the
        user's own nodes.
        """
        nodes, notes = self._nodes()
        path = self._folder.data_dir / NODES if output is None else Path(output)
        if output is not None:
            write_jsonl(path, nodes)
        elif (own := self._folder.given("nodes")) is not None:
            raise UsageError(f"the workspace's tree is the file {own}", remedy="--output FILE")
        else:
            with build_lock(self._folder.data_dir):
                self._folder.check_links()
                write_jsonl(path.with_name(_BUILT), nodes)
                replace_link(path, Path(_BUILT))
        return BuiltTree(path=path, nodes=len(nodes), notes=notes)

    def of_documents(self) -> Tree:
        """Return the tree that an index would contain, without building an index.

        It is built from the documents, or read from the user's own nodes that ``branchrank.toml`` names.
        """
        own = self._folder.given("nodes")
        return Tree(self._nodes()[0]) if own is None else given_nodes(own, self._corpus())

    def _nodes(self) -> tuple[list[Node], tuple[str, ...]]:
        """Build the nodes of the documents, and return them with notes for the user."""
        corpus = self._corpus()
        nodes, notes = build_nodes(corpus.documents, self._folder.corpus_name)
        return nodes, (*corpus.notes, *notes)

    def _corpus(self) -> Corpus:
        return load_corpus(self._folder.corpus_root, exclude=self._folder.exclude)

    def check(self, tree: Tree) -> list[str]:
        """Check a tree, and return a message about each problem."""
        lines = {document.source: document.line_count for document in self._corpus().documents}
        return check_nodes(list(tree.nodes.values()), lines)

    def summarize(
        self,
        output: AnyPath,
        *,
        base_url: str,
        model: str = "",
        seed: int = SEED,
        progress: Progress = no_progress,
    ) -> tuple[Summarized, Spent]:
        """Summarize every node of the tree with an LLM, and write the nodes to ``output``.

        After an edit of the corpus, only the edited sections and the sections that contain them are
        summarized again.
        """
        tree = Tree(self._nodes()[0])
        with open_work(self._folder, base_url, model) as work:
            result = summarize_nodes(tree, work, seed=seed, progress=progress)
            spent = work.spent
        write_jsonl(Path(output), list(result.nodes))
        return result, spent

    def export(
        self, source: str, output: AnyPath, *, tree: Tree | None = None, with_text: bool = True
    ) -> None:
        """Write the tree of one document in the JSON format that PageIndex uses for Markdown.

        If ``tree`` is given, the JSON contains the summaries of the nodes in ``tree``. Raises
        :class:`~branchrank.core.errors.InputError` for a document that is not in the corpus.
        """
        content = self._content(source)
        summaries = None if tree is None else {node.id: node.summary for node in tree.sections}
        document = read_document(source, content)
        written = export_document(document, content, summaries=summaries, with_text=with_text)
        write_bytes(Path(output), encode_document(written))

    def import_json(self, json_file: AnyPath, source: str, output: AnyPath) -> BuiltTree:
        """Convert PageIndex's JSON for one document to nodes, and write the nodes to ``output``.

        Line numbers are recomputed from the document.
        """
        with reading_errors(Path(json_file), remedy="check the path"):
            payload = text_files.read_text(Path(json_file))
        imported = import_document(payload.encode(), source, self._content(source))
        nodes, notes = import_nodes([imported], self._folder.corpus_name)
        write_jsonl(Path(output), nodes)
        return BuiltTree(path=Path(output), nodes=len(nodes), notes=tuple(notes))

    def _content(self, source: str) -> bytes:
        """Return the content of a document in the corpus as bytes."""
        try:
            return read_beneath(self._folder.corpus_root, source)
        except OSError as error:
            raise InputError(
                f"cannot read {source!r} in the corpus: {error.strerror}", remedy="branchrank pageindex show"
            ) from error


class Summarized(Record, frozen=True, kw_only=True):
    """The nodes with their summaries, in pre-order.

    For each node whose LLM call failed, ``failed`` maps the node's id to the reason for the failure.
    """

    nodes: tuple[Node, ...]
    failed: dict[str, str]


def summarize_nodes(
    tree: Tree, work: LLMWork, *, seed: int = SEED, progress: Progress = no_progress
) -> Summarized:
    """Summarize every node except the root. ``progress`` is called after each group of nodes of equal height.

    Raises the same errors as :meth:`Gateway.ask`.
    """
    summaries: dict[str, str] = {}
    failed: dict[str, str] = {}
    count = len(tree.nodes) - 1
    for nodes in _by_height(tree):
        answers = work.ask_all([_request(tree, node, summaries, seed) for node in nodes], _read)
        for node, answer in zip(nodes, answers, strict=True):
            if answer.value is None:
                failed[node.id] = answer.call.outcome
            summaries[node.id] = node.summary if answer.value is None else answer.value
        progress("summaries", len(summaries), count)
    return Summarized(nodes=tuple(with_summaries(tree.nodes.values(), summaries)), failed=failed)


def _by_height(tree: Tree) -> list[list[Node]]:
    """Return the nodes except the root, grouped by height, leaves first."""
    groups: defaultdict[int, list[Node]] = defaultdict(list)
    for node in tree.nodes.values():
        if node.parent_id is not None:
            groups[tree.height(node.id)].append(node)
    return [groups[height] for height in sorted(groups)]


def _request(tree: Tree, node: Node, summaries: dict[str, str], seed: int) -> LLMRequest:
    parts = [f"{child.title}: {summaries[child.id]}" for child in tree.children(node.id)[:_CHILDREN]]
    text = excerpt(node.text, _TEXT_CHARS)
    return LLMRequest(
        stage=STAGE,
        messages=summary_messages(node.title, text, parts),
        max_tokens=_SUMMARY_TOKENS,
        context=CallContext(question_id=node.id, predictor="summaries", seed=seed),
    )


def _read(reply: LLMReply) -> str:
    return excerpt(read_text(reply.text), _SUMMARY_CHARS)
