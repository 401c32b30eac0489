"""Which hits count as right, and what each is credited with."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gold import gold, golds_of, hit, hits_of, question

from branchrank.core.records import GoldItem, Question, Span
from branchrank.documents.lines import normalize
from branchrank.scoring.matching import Judged, judge, source_cluster, without_excluded
from branchrank.scoring.measures import parse_measure


def gains(hits, asked):
    return [each.gain for each in judge(hits, asked).hits]


def right(judged):
    return tuple([rank for rank, _ in judged.ranking(mode).gains] for mode in ("half", "full"))


@pytest.mark.parametrize(
    ("start", "end", "gain"), [(1, 9, 1), (1, 10, 2), (12, 13, 2), (20, 30, 2), (21, 30, 1), (1, 99, 2)]
)
def test_a_strict_hit_needs_one_common_line(start, end, gain):
    assert gains([hit("a.md", start, end)], question(gold("a.md", 10, 20))) == [gain]


def test_another_source_is_wrong_even_on_the_same_lines():
    assert gains([hit("b.md", 10, 20)], question(gold("a.md", 10, 20))) == [0]


def test_the_quote_makes_a_hit_strict_when_lines_moved():
    asked = question(gold("a.md", 10, 20, quote="Use the `--force`  flag"))
    assert gains([hit("a.md", 50, 60, "First **use the\n--force flag**, then")], asked) == [2]


def test_the_quote_is_matched_only_in_the_gold_source():
    asked = question(gold("a.md", 10, 20, quote="Use the flag"))
    assert gains([hit("b.md", 50, 60, "use the flag")], asked) == [0]


def test_a_quote_of_markup_alone_matches_nothing():
    assert gains([hit("a.md", 50, 60, "anything")], question(gold("a.md", 10, 20, quote="**"))) == [1]


def test_normalizing_ignores_layout_and_case_and_markup():
    assert normalize("  A *bold*\n\tSTRASSE\u00a0``x_y`` ") == "a bold strasse xy"
    assert normalize("Straße") == normalize("STRASSE")


@pytest.mark.parametrize(
    "asked",
    [question(gold("a.md")), question(gold("a.md", 10, 20), gold_level="file")],
    ids=["no lines", "gold_level"],
)
def test_file_level_gold_is_strict_anywhere_in_the_file(asked):
    assert gains([hit("b.md", 1, 2), hit("a.md", 90, 91), hit("a.md", 10, 12)], asked) == [0, 2, 0]


def test_an_item_with_a_quote_and_no_lines_is_not_file_level():
    asked = question(gold("a.md", quote="the answer"))
    assert gains([hit("a.md", 1, 2, "no"), hit("a.md", 3, 4, "The answer!")], asked) == [1, 2]


def test_an_alias_has_the_same_lines_as_its_source():
    asked = question(gold("a.md", 10, 20), source_aliases=("old/a.md",))
    assert gains([hit("old/a.md", 15, 16)], asked) == [2]
    assert gains([hit("old/a.md", 30, 31)], asked) == [1]


def test_each_gold_item_is_credited_once_to_the_first_hit_that_covers_it():
    asked = question(gold("a.md", 10, 20), gold("b.md", 1, 5))
    judged = judge([hit("a.md", 10, 12), hit("a.md", 13, 20), hit("b.md", 2, 3), hit("b.md", 4, 5)], asked)
    assert [each.gold for each in judged.hits] == [0, None, 1, None]
    assert [each.gain for each in judged.hits] == [2, 1, 2, 1]


def test_a_later_hit_on_the_same_items_gets_no_credit():
    asked = question(gold("a.md", 10, 20), gold("a.md", 15, 30))
    judged = judge([hit("a.md", 12, 18), hit("a.md", 25, 28)], asked)
    assert [each.gold for each in judged.hits] == [0, None]


def test_relaxed_hits_count_a_page_once():
    judged = judge([hit("a.md", 90, 91), hit("a.md", 10, 12)], question(gold("a.md", 10, 20)))
    assert judged.ranking("relaxed").gains == ((1, 1),)
    assert judged.ranking("strict").gains == ((2, 2),)
    assert judged.ranking("graded").gains == ((1, 1), (2, 2))


def test_alternates_count_as_the_first_gold_does():
    asked = question(gold("a.md", 10, 20), gold("b.md", 1, 5))
    assert parse_measure("hit@1")(judge([hit("b.md", 5, 5)], asked).ranking("strict")) == 1


def test_excluded_hits_are_removed_before_ranking():
    asked = question(gold("a.md", 10, 20), excluded_spans=(Span(source="link.md", line_start=5, line_end=9),))
    hits = [hit("link.md", 5, 9), hit("link.md", 6, 7), hit("link.md", 8, 10), hit("a.md", 10, 11)]
    assert [each.line_start for each in without_excluded(hits, asked)] == [10]
    assert judge(hits, asked).ranking("strict").gains == ((1, 2),)


def test_questions_cluster_by_the_source_of_their_first_gold():
    assert source_cluster(question(gold("a.md", 1, 2), gold("b.md", 1, 2))) == "a.md"
    assert source_cluster(question(answerable=False)) != source_cluster(
        Question(id="other", question="?", answerable=False)
    )
    page, document = gold("a.md"), GoldItem(source_file="a.md", relevance=1)
    assert source_cluster(question(page, gold_level="file")) == "a.md"
    assert source_cluster(question(document, gold_level="file")) == "question q"


@given(hits_of, golds_of, st.sampled_from(["span", "file"]))
def test_the_views_agree_with_each_other(hits, golds, level):
    judged = judge(hits, question(*golds, gold_level=level))
    strict, relaxed, graded = (judged.ranking(mode) for mode in ("strict", "relaxed", "graded"))
    for k in (1, 2, 5):
        success, exact = parse_measure(f"Success@{k}"), parse_measure(f"Success(rel=2)@{k}")
        assert exact(graded) == success(strict) <= success(relaxed) == success(graded)
        for view in (strict, relaxed, graded):
            for name in (f"nDCG@{k}", f"R@{k}", f"P@{k}", "AP", "RR", "nDCG"):
                assert 0 <= parse_measure(name)(view) <= 1 + 1e-12
    if level == "file":
        assert exact(graded) == success(relaxed)


@pytest.mark.parametrize(
    ("first", "last", "half", "full"),
    [
        (50, 60, False, False),
        (46, 52, True, False),
        (47, 60, False, False),
        (40, 46, True, False),
        (1, 52, True, True),
        (40, 52, True, True),
        (40, 51, True, False),
    ],
)
def test_half_and_full_count_the_gold_lines_in_one_hit(first, last, half, full):
    """The gold has 13 lines, 40 to 52: half of them are 7."""
    judged = judge([hit("a.md", first, last)], question(gold("a.md", 40, 52)))
    assert (judged.hits[0].gold, *right(judged)) == (0, [1][:half], [1][:full])


@pytest.mark.parametrize(
    ("first", "last", "half", "full"),
    [(40, 43, False, False), (40, 44, True, False), (41, 47, True, True), (1, 500, True, True)],
)
def test_half_and_full_count_only_lines_with_content(first, last, half, full):
    """Of the gold's lines, 41, 42 and 44 to 47 have content: half of them are 3."""
    hits = judge([hit("a.md", first, last)], question(gold("a.md", 40, 49))).hits
    without = {"a.md": (40, 43, 48, 49)}
    judged = Judged(hits=hits, question=question(gold("a.md", 40, 49)), blank_lines=without)
    assert right(judged) == ([1][:half], [1][:full])


def test_each_gold_item_gives_half_and_full_credit_to_one_hit():
    asked = question(gold("a.md", 1, 10))
    judged = judge([hit("a.md", 1, 4), hit("a.md", 5, 9), hit("a.md", 1, 20), hit("a.md", 1, 30)], asked)
    assert [each.gold is not None for each in judged.hits] == [True, False, False, False]
    assert right(judged) == ([2], [3])
    names = {"strict": 1, "half": 1 / 2, "full": 1 / 3}
    assert {mode: parse_measure("RR")(judged.ranking(mode)) for mode in names} == names


def test_gold_without_lines_is_fully_contained_in_strict_hits():
    quoted = question(gold("a.md", quote="the answer"))
    hits = [hit("a.md", 1, 2), hit("a.md", 3, 4, text="here is the answer")]
    assert right(judge(hits, quoted)) == ([2], [2])
    whole = judge([hit("a.md", 1, 2)], question(gold("a.md", 5, 9), gold_level="file"))
    assert right(whole) == ([1], [1])


@given(hits_of, golds_of, st.sampled_from(["span", "file"]))
def test_full_matches_are_half_matches_and_half_matches_overlap(hits, golds, level):
    judged = judge(hits, question(*golds, gold_level=level))
    for k in (1, 2, 5):
        any_, half, full = (
            parse_measure(f"Success@{k}")(judged.ranking(mode)) for mode in ("strict", "half", "full")
        )
        assert full <= half <= any_
