"""Questions from what people asked: rows of search logs and exported tickets.

1. A file is CSV (with commas, semicolons, tabs or ``|``) or JSON Lines. Its columns are recognized by their
   usual names (:data:`COLUMNS`), and other columns are ignored.
2. Rows with the same query, ignoring case and spacing, become one question with the most frequent spelling.
   Their counts are added. The most clicked page or section is the first gold.
3. A clicked address is a URL, or a page with or without an anchor. It becomes gold if the corpus has the page
   and the anchor (:meth:`~branchrank.questions.links.Links.at_address`). A whole page is left out if one of
   its sections was clicked, too. An address with the count 0 was not clicked.
4. A question without gold is written with ``answerable: false``, to be labeled. The key ``unplaced`` of a
   question lists the addresses that did not become gold, with the reasons.
"""

from __future__ import annotations

import csv
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from branchrank.core.errors import QuestionError
from branchrank.core.io.files import NOT_JSON, reading_errors
from branchrank.core.io.text_files import text_lines
from branchrank.core.records import Question, Record
from branchrank.documents.document import FOLDER_PAGES, Document
from branchrank.questions.links import Links, Target, UnresolvedLink
from branchrank.questions.question_files import COUNT, UNPLACED, folded, refuse

#: The names of the columns, without case, spaces and punctuation. The first that has a value is used.
COLUMNS = {
    "query": "query question searchterm searchquery search keyword keywords term q queries topqueries "
    "subject summary title",
    "count": "count clicks frequency hits searches times total impressions",
    "address": "clicked clickedurl clickedlink clickedpage clickurl url link page pageurl pagepath path "
    "landingpage document sourcefile source",
    "anchor": "anchor fragment hash section",
}
_KNOWN = {*" ".join(COLUMNS.values()).split()}
_WANTED = "its columns are query, count and url (or page and anchor)"
#: Whole numbers, also with zeros after the decimal point or with separated thousands.
_COUNT = re.compile(r"\d+([.,]0{1,2})?|\d{1,3}([.,' \u00a0\u202f]\d{3})+")
_REST = "\n"
NO_ADDRESS, NO_CLICK = "no clicked page", "no clicks"


class Unplaced(NamedTuple):
    """An address that did not become gold, with the reason, its clicks, and the number of its questions."""

    address: str
    reason: str
    clicks: int
    questions: int


class Imported(Record, frozen=True, kw_only=True):
    """The questions that were added to the file ``path``.

    ``rows`` and ``without_query`` are the numbers of the rows with and without a query, and ``queries`` the
    number of distinct queries. ``ignored`` are the columns that have another name than those in
    :data:`COLUMNS`. ``sites`` counts the addresses that became gold by the prefix of their site.
    """

    rows: int
    without_query: int
    queries: int
    ignored: tuple[str, ...]
    sites: dict[str, int]
    unplaced: tuple[Unplaced, ...]
    questions: tuple[Question, ...]
    path: Path = Path()


class AskedRow(NamedTuple):
    """One row, with the names of its other columns. An address is a URL or path, maybe with ``#anchor``."""

    query: str
    clicks: int
    addresses: tuple[str, ...]
    ignored: tuple[str, ...]


def read_asked(path: Path) -> list[AskedRow]:
    """Return the rows of a file.

    Raises :class:`QuestionError` if the file can't be read, has no row with a query, or has invalid rows.
    """
    asked, problems, remedy = [], [], f"correct {path}; {_WANTED}"
    with reading_errors(path, QuestionError, remedy):
        for number, row in _rows(path, remedy):
            try:
                asked.append(_asked(row))
            except (ValueError, *NOT_JSON) as error:
                problems.append(f"{path}:{number}: {error}")
    refuse(problems, remedy)
    if not any(row.query for row in asked):
        raise QuestionError(f"{path} has no row with a query", remedy=remedy)
    return asked


def _asked(row: dict[str, Any] | str) -> AskedRow:
    """Read one row, which is a line of JSON or the cells of CSV."""
    if isinstance(row, str):
        row = msgspec.json.decode(row, type=dict[str, Any])
    elif any(row.get(_REST, ())):
        raise ValueError("the row has more cells than the first row; write a cell with a separator in quotes")
    cells = {_key(name): cell for name, cell in row.items() if cell not in (None, "", [])}
    query, count, clicked, anchor = (
        next((cells[name] for name in names.split() if name in cells), "") for names in COLUMNS.values()
    )
    listed = clicked if isinstance(clicked, list) else [clicked]
    if wrong := [each for each in (query, anchor, *listed) if not isinstance(each, str)]:
        raise ValueError(f"expected text, not {wrong[0]!r}")
    digits = str(count).strip() or "1"
    if not _COUNT.fullmatch(digits):
        raise ValueError(f"{count!r} is not a count")
    end = f"#{anchor.strip().removeprefix('#')}" if anchor.strip() else ""
    ignored = tuple(name for name in row if name != _REST and _key(name) not in _KNOWN)
    addresses = (each.strip() + end * ("#" not in each) for each in listed if each.strip())
    clicks = int(re.sub(r"[.,]0{1,2}$|\D", "", digits))
    return AskedRow(" ".join(query.split()), clicks, tuple(addresses), ignored)


def _rows(path: Path, remedy: str) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Yield the number of the line and the content of each row."""
    lines = text_lines(path, error=QuestionError, remedy=f"save {path} as UTF-8")
    above = ((number, line) for number, line in lines if line.strip() and not line.startswith("#"))
    start, first = next(above, (0, ""))
    if first.lstrip()[:1] in ("{", "["):
        yield from ((number, line) for number, line in chain([(start, first)], lines) if line.strip())
        return
    separators = ",;\t|"
    if marked := re.fullmatch('"?sep=(.)"?', first.strip()):
        separators = marked[1]
        start, first = next(above, (0, ""))
    found = {each: {*map(_key, next(csv.reader([first], delimiter=each), []))} for each in separators}
    separator = max(separators, key=lambda each: len(_KNOWN & found[each]))
    if first and found[separator].isdisjoint(COLUMNS["query"].split()):
        raise QuestionError(f"{path}:{start}: no column is called query: {first.strip()}", remedy=remedy)
    every = chain([first], (line for _, line in lines))
    reader = csv.DictReader(every, restkey=_REST, restval="", delimiter=separator, strict=True)
    try:
        yield from ((start - 1 + reader.line_num, row) for row in reader if any(row.values()))
    except csv.Error as error:
        message = f"{path}:{start + reader.line_num}: the row is not CSV: {error}"
        raise QuestionError(message, remedy=remedy) from None


def _key(name: str) -> str:
    """Return the name of a column without case, spaces and punctuation."""
    return re.sub(r"[\W_]+", "", name).casefold()


class _Query(NamedTuple):
    """The rows with the same query. The counters count clicks."""

    texts: Counter[str]
    targets: Counter[Target]
    unplaced: Counter[tuple[str, str]]

    def question(self, links: Links) -> Question:
        """Make the question, without an id and digests."""
        text = max(self.texts, key=self.texts.__getitem__)
        extra: dict[str, Any] = {COUNT: self.texts.total()}
        if self.unplaced:
            extra[UNPLACED] = [": ".join(filter(None, each)) for each in self.unplaced]
        exact = {target.source for target in self.targets if target.section}
        kept = [each for each, _ in self.targets.most_common() if each.section or each.source not in exact]
        if kept:
            return links.question(text, kept, extra=extra)
        return Question(id="", question=text, answerable=False, extra=extra)


def imported(asked: Sequence[AskedRow], documents: Sequence[Document]) -> Imported:
    """Make questions from rows, without ids and digests."""
    links = Links(documents)
    places, sites = _places(links, {address for row in asked for address in row.addresses})
    queries: defaultdict[str, _Query] = defaultdict(lambda: _Query(Counter(), Counter(), Counter()))
    rows = [row for row in asked if row.query]
    for row in rows:
        query = queries[folded(row.query)]
        query.texts[row.query] += row.clicks
        for address in row.addresses or ("",):
            place = places.get(address, NO_ADDRESS)
            if isinstance(place, Target) and row.clicks:
                query.targets[place] += row.clicks
            else:
                query.unplaced[address, place if isinstance(place, str) else NO_CLICK] += row.clicks
    left: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for query in queries.values():
        for key, clicks in query.unplaced.items():
            left[key].append(clicks)
    unplaced = [Unplaced(*key, clicks=sum(each), questions=len(each)) for key, each in left.items()]
    return Imported(
        rows=len(rows),
        without_query=len(asked) - len(rows),
        queries=len(queries),
        ignored=tuple(dict.fromkeys(chain.from_iterable(row.ignored for row in asked))),
        sites=sites,
        unplaced=tuple(sorted(unplaced, key=lambda each: (-each.clicks, each))),
        questions=tuple(each.question(links) for each in queries.values()),
    )


def _places(links: Links, addresses: Iterable[str]) -> tuple[dict[str, Target | str], dict[str, int]]:
    """Return the target of each address, or the reason why it has none, and the number by site.

    Addresses with the most path segments come first, because home pages have the address of a known site.
    """
    places: dict[str, Target | str] = {}
    sites: Counter[str] = Counter()
    for address in sorted(addresses, key=lambda each: (-_bare(each).count("/"), each)):
        try:
            url = urlsplit(address)
            page = urlsplit(url.fragment) if url.fragment.startswith("/") else url  # pages may be anchors
            anchor = url.fragment.partition(":~:")[0] if page is url else page.query.removeprefix("id=")
            site = _bare(f"{url.netloc}/{page.path}")
            is_home = site in sites
            prefix, target = links.at_address("" if is_home else page.path, anchor)
            places[address] = target._replace(source=links.copy_of.get(target.source, target.source))
            sites[site if is_home else _bare(f"{url.netloc}/{prefix}")] += 1
        except UnresolvedLink as error:
            places[address] = str(error).removeprefix("unresolved: ")
        except ValueError:
            places[address] = "not a URL"
    return places, dict(sorted(sites.items()))


def _bare(address: str) -> str:
    """Return an address without its scheme, query, anchor and the name of a folder's page."""
    parts = [part for part in re.sub(r"^\w+://|[?#].*", "", address).split("/") if part]
    if len(parts) > 1 and parts[-1].partition(".")[0] in FOLDER_PAGES:
        parts.pop()
    return "/".join(parts)
