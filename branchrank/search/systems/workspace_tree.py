"""Methods that build, check, summarize, export and import the PageIndex tree of a workspace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from branchrank.core.errors import InputError, UsageError
from branchrank.core.io.files import reading_errors, write_bytes, write_jsonl
from branchrank.core.io.progress import Progress, no_progress
from branchrank.core.records import SEED, Node, Record
from branchrank.index.generations import NODES, build_lock, replace_link
from branchrank.index.workspace_folder import AnyPath, WorkspaceFolder
from branchrank.search.llm.ledger import Spent

if TYPE_CHECKING:
    from branchrank.documents.loading import Corpus
    from branchrank.documents.tree.navigate import Tree
    from branchrank.search.systems.node_summaries import Summarized


#: The file in the folder ``pageindex`` that a tree is written to.
_BUILT = "tree.jsonl"


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
        from branchrank.documents.tree.navigate import Tree
        from branchrank.index.adopted_files import given_nodes

        own = self._folder.given("nodes")
        return Tree(self._nodes()[0]) if own is None else given_nodes(own, self._corpus())

    def _nodes(self) -> tuple[list[Node], tuple[str, ...]]:
        """Build the nodes of the documents, and return them with notes for the user."""
        from branchrank.documents.tree.tree_build import build_nodes

        corpus = self._corpus()
        nodes, notes = build_nodes(corpus.documents, self._folder.corpus_name)
        return nodes, (*corpus.notes, *notes)

    def _corpus(self) -> Corpus:
        from branchrank.documents.loading import load_corpus

        return load_corpus(self._folder.corpus_root, exclude=self._folder.exclude)

    def load(self, path: AnyPath) -> Tree:
        """Read a tree from a ``nodes.jsonl`` file.

        Raises :class:`~branchrank.core.errors.ArtifactError` if the file is damaged.
        """
        from branchrank.documents.tree.store import load_nodes

        return load_nodes(Path(path))

    def check(self, tree: Tree) -> list[str]:
        """Check a tree, and return a message about each problem."""
        from branchrank.documents.tree.store import check_nodes

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
        from branchrank.documents.tree.navigate import Tree
        from branchrank.search.llm.session import open_work
        from branchrank.search.systems.node_summaries import summarize_nodes

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
        from branchrank.documents.reading import read_document
        from branchrank.documents.tree.pageindex_json import encode_document, export_document

        content = self._content(source)
        summaries = None if tree is None else {node.id: node.summary for node in tree.sections}
        document = read_document(source, content)
        written = export_document(document, content, summaries=summaries, with_text=with_text)
        write_bytes(Path(output), encode_document(written))

    def import_json(self, json_file: AnyPath, source: str, output: AnyPath) -> BuiltTree:
        """Convert PageIndex's JSON for one document to nodes, and write the nodes to ``output``.

        Line numbers are recomputed from the document.
        """
        from branchrank.documents.tree.pageindex_json import import_document, import_nodes

        with reading_errors(Path(json_file), remedy="check the path"):
            payload = Path(json_file).read_bytes()
        imported = import_document(payload, source, self._content(source))
        nodes, notes = import_nodes([imported], self._folder.corpus_name)
        write_jsonl(Path(output), nodes)
        return BuiltTree(path=Path(output), nodes=len(nodes), notes=tuple(notes))

    def _content(self, source: str) -> bytes:
        """Return the content of a document in the corpus as bytes."""
        from branchrank.core.io.files import read_beneath

        try:
            return read_beneath(self._folder.corpus_root, source)
        except OSError as error:
            raise InputError(
                f"cannot read {source!r} in the corpus: {error.strerror}", remedy="branchrank pageindex show"
            ) from error
