"""Checks of a run against its corpus, if the corpus is available.

1. The corpus is read from the given folder (by default the folder recorded in ``run.json``). If the digest of
   the corpus differs from the recorded digest, the corpus has changed.
2. The lines of gold and hits must exist in the documents, and quotes must be in the gold lines. The content
   of ``gold.jsonl`` (such as the kind of block that contains the gold) is recomputed and compared.
3. The passages in ``report.html`` must match the text of the documents.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from branchrank.corpus.lines import decode, split_lines
from branchrank.corpus.loading import digest_now
from branchrank.io.files import read_beneath
from branchrank.questions.anchoring import check_anchors
from branchrank.questions.question_files import HASHED
from branchrank.report.documents import Passages, gather_passages
from branchrank.report.verify.findings import Finding, some
from branchrank.report.verify.rows import row_finding
from branchrank.runs import directory as names
from branchrank.runs.run import RunData
from branchrank.runs.slices import gold_facts


class SearchedCorpus:
    """The corpus that a run searched, with checks of the run against the corpus."""

    def __init__(self, run: RunData, root: Path) -> None:
        self.run = run
        self.root = root
        self.lines = cache(self._lines)

    def _lines(self, source: str) -> list[str] | None:
        try:
            return split_lines(decode(read_beneath(self.root, source))[0])
        except OSError:
            return None

    def check(self, page: Passages | None) -> list[Finding]:
        """Compare the questions' gold, the file ``gold.jsonl``, the hits and the passages with the corpus.

        ``page`` contains the passages in ``report.html``, or ``None`` if the passages are not available.
        """
        findings = some(names.QUESTIONS, list(self._gold()))
        facts = gold_facts(self.run.asked, self.root)
        findings += some(
            names.GOLD,
            [
                Finding(
                    file=names.GOLD, place=f"question {kept.question_id!r}", message="differs from the corpus"
                )
                for kept, read in zip(self.run.gold_facts, facts, strict=False)
                if kept != read
            ],
        )
        findings += some(names.ROWS, list(self._hits()))
        if page is not None:
            findings += some(names.REPORT_HTML, list(self._passages(page)))
        return findings

    def _gold(self) -> Iterator[Finding]:
        for question in self.run.asked:
            lines = {}
            for source in {*question.source_aliases, *(item.source_file for item in question.gold)}:
                found = self.lines(source)
                if found is not None:
                    lines[source] = found
            gold = tuple(
                replace(item, answer_quote=None) if (item.answer_quote or "").startswith(HASHED) else item
                for item in question.gold
                if item.source_file in lines
            )
            for problem in check_anchors([replace(question, gold=gold)], lines):
                yield Finding(
                    file=names.QUESTIONS,
                    place=f"question {question.id!r}",
                    message=f"gold: {problem.message}",
                )

    def _hits(self) -> Iterator[Finding]:
        """Find hits whose lines don't exist in the hit's document."""
        systems = {each.name for each in self.run.record.predictors if each.system is not None}
        for row in self.run.rows:
            for hit in row.hits if row.predictor in systems else ():
                lines = self.lines(hit.source)
                if lines is None:
                    yield row_finding(row.key, f"has a hit in {hit.source!r}, which is not in the corpus")
                elif hit.line_end > len(lines):
                    where = f"{hit.source}:{hit.line_start}-{hit.line_end}"
                    yield row_finding(
                        row.key, f"has the hit {where}, but the document has only {len(lines)} lines"
                    )

    def _passages(self, page: Passages) -> Iterator[Finding]:
        read = gather_passages(self.run, self.root)
        for source in sorted(page.keys() | read.keys()):
            kept, expected = page.get(source, []), read.get(source, [])
            if kept != expected:
                first = next((start for start, lines in kept if (start, lines) not in expected), 0)
                place = f"the passage from line {first} of {source}" if first else f"passages of {source}"
                yield Finding(
                    file=names.REPORT_HTML, place=place, message="is different from the text of the document"
                )


def searched_corpus(run: RunData, corpus: Path | None) -> tuple[SearchedCorpus | None, str]:
    """Return the corpus in the folder ``corpus`` (by default the recorded folder), and "".

    If the folder does not contain the corpus that the run searched, return ``None`` and the reason. If
    ``corpus`` is ``None`` and the run recorded no folder, return ``None`` and "".
    """
    record = run.record
    if corpus is None and not record.corpus:
        return None, ""
    root = corpus if corpus is not None else Path(record.corpus)
    digest = digest_now(root, record.corpus_exclude)
    if digest == record.corpus_digest:
        return SearchedCorpus(run, root), ""
    if not digest:
        return None, f"there are no documents in {root}"
    return None, f"{root} is not the corpus that the run searched: its digest is different"
