"""Terms of a question."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from branchrank.search.files.grep_search import TERM_CHARACTERS, TERM_LIMIT, extract_terms


def texts(query: str) -> list[str]:
    return [term.text for term in extract_terms(query)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("How do I clear the cache?", ["clear", "cache"]),
        ('find "service container" quickly', ["find", "service container", "quickly"]),
        ("what does `bin/run --all` do", ["bin/run --all"]),
        ("it's not 'a quote' nor don't", ["a quote"]),
        ("HttpClient and max_retries", ["HttpClient", "max_retries"]),
        ("kernel.request, App\\Kernel::boot().", ["kernel.request", "App\\Kernel::boot"]),
        ("$user->name", ["$user->name"]),
        ("--pre=touch", ["--pre=touch"]),
        ("cache Cache CACHE", ["cache"]),
        ("how does it", ["how", "does", "it"]),
        ("???", ["???"]),
        ("", []),
        (" \n\t", []),
        ("用户 认证", ["用户", "认证"]),
    ],
)
def test_terms_of_a_question(query: str, expected: list[str]) -> None:
    assert texts(query) == expected


def test_only_plain_words_must_match_at_a_word_start() -> None:
    patterns = {term.text: term.pattern for term in extract_terms('form form_theme "form row"')}
    assert re.search(patterns["form"], "the forms")
    assert not re.search(patterns["form"], "platform")
    assert re.search(patterns["form_theme"], "a_form_theme")
    assert re.search(patterns["form row"], "x.form rows")


def test_the_number_and_length_of_terms_are_limited() -> None:
    assert len(texts(" ".join(f"word{n}" for n in range(500)))) == TERM_LIMIT
    assert max(map(len, texts("x" * 5000 + ' "' + "y" * 5000 + '"'))) == TERM_CHARACTERS


@given(st.text(max_size=200))
def test_any_text_gives_printable_terms_that_are_valid_patterns(query: str) -> None:
    terms = extract_terms(query)
    assert bool(terms) == bool(re.sub(r"[\x00-\x1f\ud800-\udfff]", " ", query).strip())
    for term in terms:
        assert not re.search(r"[\x00-\x1f]", term.text)
        re.compile(term.pattern)
        term.text.encode("utf-8")


@pytest.mark.parametrize("unit", ['"', "'", "' ", "a'", "“", "`", "->", "-", "a ", "é", "(("])
def test_time_grows_linearly_with_the_text(unit: str) -> None:
    # A quadratic extraction takes minutes here, and the whole suite has a limit.
    assert len(extract_terms(unit * 50_000)) <= TERM_LIMIT
