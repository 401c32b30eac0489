"""Navigational questions made from the cross-references in a corpus, without an LLM.

1. Every cross-reference that has link text is resolved (:mod:`branchrank.questions.links`). The link text
   becomes a query, and the target of the link becomes the gold.
2. A link is dropped if its target is not in the corpus, is in release notes, or is a label that is not at a
   heading. A link whose target contains the link itself is also dropped.
3. Links with the same text form one query. Case and whitespace are ignored. A query with more than two
   targets is dropped as ambiguous.
4. A query is dropped if it has the same stems as the heading of its target. Articles, and words such as
   "chapter", are ignored in this comparison.
5. Queries that point to a place ("as shown above"), name code, or have fewer than two content words are
   dropped.
6. Sections that contain a link with the query's text are excluded from the query's hits, because a search for
   the link text would find them first. A query whose gold overlaps an excluded section is dropped.
7. If several pages are exact copies, the gold is on the first copy, and the other copies become aliases.

The key ``overlap`` of a question shows how many content words of the query are in the heading of its target:
all (``subset``), some (``partial``) or none (``paraphrase``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

import msgspec

from branchrank.core.records import Question, Span
from branchrank.core.settings import Bm25Settings
from branchrank.documents.document import Document, slug
from branchrank.index.stores.analyzer import STOP_WORDS, analyzer
from branchrank.questions.links import UNRESOLVED, Links, Target, UnresolvedLink, own_span, section_at
from branchrank.questions.question_files import folded

KIND = "navigational"
MAX_GOLDS = 2
MIN_CONTENT_WORDS = 2
#: The possible values of the key ``overlap`` in a question.
OVERLAPS = ("subset", "partial", "paraphrase")
#: The reasons for dropping a link, in the order of the checks.
LINK_REASONS = (*UNRESOLVED, "inner label", "release notes", "leads into itself")
#: The reasons for dropping a query, in the order of the checks.
QUERY_REASONS = ("as its heading", "points", "names code", "too few words", "ambiguous", "links itself")

_ANALYZER = Bm25Settings(stop_words="none", split_identifiers=False)
#: Words that do not name a subject, such as "the", "page" and "chapter".
_PARTS = (
    "a an the article articles chapter chapters component components doc docs documentation document "
    "documents entry guide guides handbook manual page pages paragraph reference references section "
    "sections topic topics tutorial tutorials"
)
#: Words such as "click" and "here", which invite the reader to follow a link but name no subject.
_INVITING = (
    "click details example examples find here info information instructions learn more overview read "
    "reading see"
)
#: Words that refer to a place in the text. The word "that" usually introduces a clause and is not listed.
_POINTING = (
    "above aforementioned before below earlier former here latter later next previous previously these "
    "this those"
)
#: Words that name kinds of code identifiers.
_CODE_KINDS = (
    "argument attribute class command constant decorator directive event exception field file flag "
    "function hook interface keyword listener method module object option package parameter property "
    "setting tag type variable"
)
_CODE = re.compile(r"[_()\\$@{}\[\]=;<>%*^~`]|::|->|^[-.]{1,2}\w|\w[./]\w|[a-z][A-Z]|^[A-Z0-9]*\d[A-Z0-9]*$")
_RELEASE_NAME = re.compile(
    r"(?:changes|change-?log|deprecations?|history|news|releases?|release-?notes?|upgrad(?:e|es|ing)|what-?s-?new)"
    r"(?:-?v?[\dx.]+)?"
)
_VERSION = re.compile(r"(?:\w+ )?(?:version )?v?\d+(?:\.\d+)+(?: release notes?)?", re.IGNORECASE)


class Mined(NamedTuple):
    """The questions in the order of their ids, and the numbers of dropped links and queries by reason.

    ``links`` is the number of cross-references that have link text. ``queries`` is the number of distinct
    texts of the links that were not dropped.
    """

    questions: list[Question]
    links: int
    queries: int
    dropped_links: dict[str, int]
    dropped_queries: dict[str, int]

    @property
    def overlaps(self) -> dict[str, int]:
        """The number of questions for each value of the key ``overlap``."""
        counts = Counter(question.extra["overlap"] for question in self.questions)
        return {overlap: counts[overlap] for overlap in OVERLAPS}


class _Query(NamedTuple):
    """Links with the same text, ignoring case. ``linking`` lists the sections that contain the links."""

    texts: list[str]
    targets: list[Target]
    linking: list[Span]


def mine_questions(documents: Sequence[Document]) -> Mined:
    """Return questions made from cross-references. The order of ``documents`` has no effect."""
    miner = _Miner(sorted(documents, key=lambda document: document.source))
    queries = miner.queries()
    reasons = [miner.reason(query) for query in queries]
    dropped = miner.dropped + Counter(filter(None, reasons))
    kept = (query for query, reason in zip(queries, reasons, strict=True) if not reason)
    return Mined(
        questions=_with_ids(map(miner.question, kept)),
        links=sum(len(document.references) for document in miner.originals),
        queries=len(queries),
        dropped_links={reason: dropped[reason] for reason in LINK_REASONS},
        dropped_queries={reason: dropped[reason] for reason in QUERY_REASONS},
    )


class _Miner:
    """Makes queries from the cross-references in a corpus, and questions from the queries.

    ``dropped`` counts the dropped links by reason.
    """

    def __init__(self, documents: Sequence[Document]) -> None:
        self.links = Links(documents)
        self.dropped: Counter[str] = Counter()
        self.originals = [each for each in documents if each.source not in self.links.copy_of]
        self.release_notes = {document.source for document in documents if is_release_note(document)}
        self.analyze = analyzer(_ANALYZER)
        self.parts = frozenset(self.analyze(_PARTS))
        self.pointing = frozenset(self.analyze(_POINTING))
        self.code_kinds = frozenset(self.analyze(_CODE_KINDS))
        stopped = STOP_WORDS["english"] | STOP_WORDS["questions"]
        self.empty = self.parts.union(self.analyze(_INVITING), *map(self.analyze, stopped))

    def queries(self) -> list[_Query]:
        """Return the queries sorted by text, and count the dropped links."""
        found: dict[str, _Query] = {}
        for document in self.originals:
            for reference in document.references:
                query = found.setdefault(folded(reference.text), _Query([], [], []))
                own = section_at(document, reference.line)
                span = own_span(document.source, document.sections[own])
                if span not in query.linking:
                    query.linking.append(span)
                try:
                    target = self.links.target(document.source, reference)
                except UnresolvedLink as error:
                    self.dropped[str(error)] += 1
                    continue
                if target is None:
                    self.dropped["inner label"] += 1
                    continue
                target = Target(self.links.copy_of.get(target.source, target.source), target.section)
                if target.source in self.release_notes:
                    self.dropped["release notes"] += 1
                elif target.source == document.source and target.section in (0, own):
                    self.dropped["leads into itself"] += 1
                else:
                    query.texts.append(reference.text)
                    if target not in query.targets:
                        query.targets.append(target)
        return [query for _, query in sorted(found.items()) if query.targets]

    def reason(self, query: _Query) -> str:
        """Return the reason why a query is dropped, or an empty string if it becomes a question."""
        text = query.texts[0]
        stems = frozenset(self.analyze(text)) - self.parts
        headings = (self.links.section(target).title for target in query.targets)
        if any(stems == frozenset(self.analyze(heading)) - self.parts for heading in headings):
            return "as its heading"
        if self.pointing & set(self.analyze(text)):
            return "points"
        words = text.split()
        code = [word for word in words if _CODE.search(word)]
        content = self.content(text)
        others = self.content(" ".join(word for word in words if word not in code)) - self.code_kinds
        if code and len(code) > len(others):
            return "names code"
        if len(content) < MIN_CONTENT_WORDS:
            return "too few words"
        if len(query.targets) > MAX_GOLDS:
            return "ambiguous"
        golds = [self.links.span(target) for target in query.targets]
        if any(target.section == 0 for target in query.targets):  # the gold consists of whole pages
            golds = [msgspec.structs.replace(gold, line_start=1, line_end=2**31) for gold in golds]
        return "links itself" if any(gold.overlap(span) for gold in golds for span in query.linking) else ""

    def content(self, text: str) -> frozenset[str]:
        """Return the stems of a text's words, without words such as "the", "see" and "chapter"."""
        return frozenset(self.analyze(text)) - self.empty

    def question(self, query: _Query) -> Question:
        """Make a question without an id."""
        targets = sorted(
            query.targets,
            key=lambda target: (target.source not in self.links.copies, target.source, target.section),
        )
        counts = Counter(query.texts)
        text = min(counts, key=lambda each: (-counts[each], each))
        headings = " ".join(self.links.section(target).title for target in targets)
        content, found = self.content(text), self.content(headings)
        overlap = "subset" if content <= found else "partial" if content & found else "paraphrase"
        excluded = tuple(sorted(query.linking))
        return self.links.question(
            text, targets, kind=KIND, excluded_spans=excluded, extra={"overlap": overlap}
        )


def is_release_note(document: Document) -> bool:
    """Return whether a document's path is typical of release notes, or its title is a version number."""
    path = PurePosixPath(document.source.casefold())
    names = (re.sub(r"[_ ']", "-", name) for name in (*path.parts[:-1], path.name.rpartition(".")[0]))
    return any(_RELEASE_NAME.fullmatch(name) for name in names) or bool(_VERSION.fullmatch(document.title))


def _with_ids(questions: Iterable[Question]) -> list[Question]:
    """Give each question a unique id made from its text, and return the questions sorted by id."""
    used: Counter[str] = Counter()
    named = []
    for question in questions:
        name = f"mined-{slug(question.question)}"
        used[name] += 1
        identifier = name if used[name] == 1 else f"{name}~{used[name]}"
        named.append(msgspec.structs.replace(question, id=identifier))
    return sorted(named, key=lambda question: question.id)
