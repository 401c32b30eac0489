"""What holds for every document and its chunks, whatever the file holds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from documents.scanner import line_count, misplaced

from branchrank.core.records import Chunk
from branchrank.documents.chunking import chunk_document
from branchrank.documents.document import Document
from branchrank.documents.reading import document_text, is_binary, read_document
from branchrank.documents.tree_build import build_nodes
from branchrank.documents.tree_nodes import check_nodes

#: Characters for each token of a chunk from which a text is taken to be longer than the chunk, uncounted.
UNCOUNTED = 64
_TOKEN = re.compile(r"\w+|[^\w\s]")


def count_tokens(text: str) -> int:
    """Words and punctuation marks: additive over lines, and quick."""
    return len(_TOKEN.findall(text))


def chunks_of(document: Document, target_tokens: int) -> list[Chunk]:
    """The document's chunks without an overlap."""
    return chunk_document(
        document,
        target_tokens=target_tokens,
        overlap_tokens=0,
        count_tokens=count_tokens,
    )


def text_of(source: str, content: bytes) -> bytes:
    """What the lines of a file are counted in: its bytes, or the text of a binary file or of UTF-16."""
    decoded = is_binary(source) or content.startswith((b"\xff\xfe", b"\xfe\xff"))
    return document_text(source, content).encode() if decoded else content


def broken_invariants(document: Document, content: bytes, chunks: Sequence[Chunk], target: int) -> list[str]:
    """Lines are partitioned by own spans, blocks and chunks lie inside them, chunks are disjoint."""
    problems: list[str] = []
    lines = line_count(text_of(document.source, content))
    if document.line_count != lines:
        problems.append(f"{document.line_count} lines, but the file has {lines}")
    owners: list[str] = []
    for section in document.sections:
        owners += [section.id] * (section.own_line_end - section.line_start + 1)
        end = section.line_start - 1
        for block in section.blocks:
            if not end < block.line_start <= block.line_end <= section.own_line_end:
                problems.append(f"{section.id}: block {block.line_start}-{block.line_end} after line {end}")
            if block.kind != "heading" and block.text.count("\n") > block.line_end - block.line_start:
                problems.append(f"{section.id}: more lines of text than lines at {block.line_start}")
            end = block.line_end
    if len(owners) != lines:
        problems.append(f"own spans hold {len(owners)} lines of {lines}")
    nodes, _ = build_nodes([document], "corpus")
    problems += check_nodes(nodes, {document.source: lines})
    for chunk in chunks:
        if set(owners[chunk.line_start - 1 : chunk.line_end]) != {chunk.node_id}:
            problems.append(f"{chunk.id}: lines {chunk.line_start}-{chunk.line_end} leave the section")
    cut = _cut_lines(document, target)
    for before, after in pairwise(chunks):
        if after.line_start <= before.line_end and before.line_end not in cut:
            problems.append(f"{before.id} and {after.id} share line {after.line_start}")
    return problems


def problems_of(source: str, content: bytes, *, target_tokens: int, scan: bool = True) -> list[str]:
    """Everything that is wrong with the reading of one file; ``scan`` looks for every word as well."""
    return problems_in(read_document(source, content), content, target_tokens=target_tokens, scan=scan)


def problems_in(document: Document, content: bytes, *, target_tokens: int, scan: bool = True) -> list[str]:
    """Everything that is wrong with a document that was read from ``content``."""
    source = document.source
    chunks = chunks_of(document, target_tokens)
    problems = broken_invariants(document, content, chunks, target_tokens)
    if len({section.id for section in document.sections}) != len(document.sections):
        problems.append("section ids repeat")
    return problems + (misplaced(source, text_of(source, content), chunks) if scan else [])


def _cut_lines(document: Document, target: int) -> set[int]:
    """The lines of blocks that are too long for a chunk beside a long breadcrumb."""
    return {
        line
        for section in document.sections
        for block in section.blocks
        if count_tokens(block.text) > target // 2 or len(block.text) > UNCOUNTED * (target // 2)
        for line in range(block.line_start, block.line_end + 1)
    }
