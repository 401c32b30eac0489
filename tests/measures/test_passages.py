"""What passages cost and how much of them is gold."""

import tracemalloc

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.gold import gold, golds_of, hit, hits_of, question

from branchrank.measures.matching import judge
from branchrank.measures.passage_size import found_within, passage_size, summarize_passages
from branchrank.records import GoldItem, Span


@settings(derandomize=True, max_examples=300, deadline=None)
@given(hits_of, golds_of)
def test_spans_are_measured_as_the_sets_of_their_lines(hits, golds):
    asked = question(*golds, source_aliases=("c",))  # c stands for the first gold item's source
    returned = {
        (golds[0].source_file if each.source == "c" else each.source, line)
        for each in hits
        for line in range(each.line_start, each.line_end + 1)
    }
    wanted = [
        {(item.source_file, line) for line in range(item.answer_line_start, item.answer_line_end + 1)}
        for item in golds
    ]
    lines = sum(each.span.lines for each in hits)
    gold_lines = len(returned & set().union(*wanted))
    size = passage_size(hits, asked)
    assert (size.lines, size.gold_lines) == (lines, gold_lines)
    assert size.span_precision == (gold_lines / lines if lines else 0)
    assert size.gold_coverage == max(len(returned & each) / len(each) for each in wanted)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(hits_of, golds_of, st.integers(1, 60))
def test_gold_within_a_number_of_lines_is_gold_among_the_first_returned_lines(hits, golds, lines):
    asked = question(*golds, source_aliases=("c",))
    judged = judge(hits, asked).hits
    source = golds[0].source_file
    returned = [
        (source if each.source == "c" else each.source, line)
        for each in judged
        for line in range(each.line_start, each.line_end + 1)
    ]
    wanted = {
        (item.source_file, line)
        for item in golds
        for line in range(item.answer_line_start, item.answer_line_end + 1)
    }
    assert found_within(judged, asked, lines) == bool(wanted & set(returned[:lines]))


def test_gold_without_lines_is_within_the_lines_of_a_whole_hit():
    file = question(gold("a", 1, 4), gold_level="file")
    assert found_within(judge([hit("b", 1, 9), hit("a", 5, 90)], file).hits, file, 10)
    quote = question(GoldItem(source_file="a", answer_quote="text"))
    judged = judge([msgspec.structs.replace(hit("a", 1, 9), text="the text", plain="the text")], quote).hits
    assert [found_within(judged, quote, lines) for lines in (8, 9)] == [False, True]
    excluded = question(gold("a", 1, 4), excluded_spans=(Span(source="x", line_start=1, line_end=9),))
    assert found_within(judge([hit("x", 1, 9), hit("a", 1, 4)], excluded).hits, excluded, 1)


def test_a_huge_hit_uses_little_memory():
    tracemalloc.start()
    size = passage_size([hit("a", 1, 2_000_000), hit("a", 5, 9)], question(gold("a", 3, 1_000_002)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (size.lines, size.gold_lines, size.gold_coverage) == (2_000_005, 1_000_000, 1.0)
    assert size.span_precision == pytest.approx(1_000_000 / 2_000_005)
    assert peak < 1_000_000, "bytes"


def test_file_level_gold_has_no_lines_to_measure():
    size = passage_size([hit("a", 1, 4)], question(gold("a", 1, 4), gold_level="file"))
    assert (size.lines, size.span_precision, size.gold_coverage) == (4, None, None)


def test_excluded_hits_do_not_count_in_the_passage_size():
    asked = question(gold("a", 1, 4), excluded_spans=(Span(source="x", line_start=1, line_end=9),))
    assert passage_size([hit("x", 1, 9), hit("a", 1, 4)], asked).span_precision == 1.0


def test_totals_weigh_every_hit_the_same():
    asked = question(gold("a", 1, 4))
    sizes = [passage_size([hit("a", 1, 10), hit("a", 11, 20)], asked), passage_size([hit("a", 1, 1)], asked)]
    summary = summarize_passages(sizes)
    assert summary["lines_per_hit"] == 7.0
    assert summary["span_precision"] == (0.2 + 1.0) / 2
    assert summarize_passages([passage_size([], asked)])["lines_per_hit"] is None
