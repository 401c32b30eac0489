"""The BM25 analyzer: words, stems, stop words, identifiers."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import Stemmer
from hypothesis import given
from hypothesis import strategies as st

from branchrank.core.settings import Bm25Settings, parts
from branchrank.index.stores.analyzer import STOP_WORDS, analyzer

PLAIN = Bm25Settings(stemmer="none", stop_words="none", split_identifiers=False)
LUCENE = Bm25Settings(stemmer="porter", stop_words="english", split_identifiers=False)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The cat's HATS", ["the", "cat", "hats"]),
        ("the cats’ hats", ["the", "cats", "hats"]),
        ("don't stop-words", ["don't", "stop", "words"]),
        ("a.b, 3.14; e.g. x.", ["a.b", "3.14", "e.g", "x"]),
        ("foo_bar --no-llm ___", ["foo_bar", "no", "llm"]),
        ("Café Ünï", ["café", "ünï"]),
        ("cafe\u0301", ["café"]),
        ("日本語text", ["日", "日本", "本", "本語", "語", "text"]),
        ("", []),
        (" \n\t.,;", []),
    ],
)
def test_text_is_split_into_words(text: str, tokens: list[str]) -> None:
    assert analyzer(PLAIN)(text) == tokens


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("fooBarBaz", ["foobarbaz", "foo", "bar", "baz"]),
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("snake_case_name", ["snake_case_name", "snake", "case", "name"]),
        ("kernel.controller_arguments", ["kernel.controller_arguments", "kernel", "controller", "arguments"]),
        ("__init__", ["__init__", "init"]),
        ("utf8", ["utf8", "utf"]),
        ("don't", ["don't"]),
        ("plain", ["plain"]),
        ("foo.foo", ["foo.foo", "foo"]),
    ],
)
def test_an_identifier_gives_itself_and_its_parts(word: str, parts: list[str]) -> None:
    split = Bm25Settings(stemmer="none", stop_words="none", split_identifiers=True)
    assert analyzer(split)(word) == parts
    assert analyzer(PLAIN)(word) == parts[:1]


def test_lucene_english_analysis() -> None:
    """What Lucene's EnglishAnalyzer makes of it: possessive, lower case, 33 stop words, Porter's stemmer."""
    assert len(STOP_WORDS["english"]) == 33
    text = "The quick brown foxes jumped over the dog's generalizations, and into it"
    assert analyzer(LUCENE)(text) == ["quick", "brown", "fox", "jump", "over", "dog", "gener"]


def test_each_setting_changes_the_tokens() -> None:
    text = "running the fooBar"
    default = analyzer(Bm25Settings())(text)
    assert default == ["run", "foobar", "foo", "bar"]
    assert analyzer(Bm25Settings(stemmer="none"))(text) == ["running", "foobar", "foo", "bar"]
    assert analyzer(Bm25Settings(stop_words="none"))(text) == ["run", "the", "foobar", "foo", "bar"]
    assert analyzer(Bm25Settings(split_identifiers=False))(text) == ["run", "foobar"]
    assert analyzer(Bm25Settings())("how do I run it") == ["run"]
    assert analyzer(Bm25Settings(stop_words="english"))("how do I run it") == ["how", "do", "i", "run"]
    # Snowball's English stemmer and Porter's differ.
    assert analyzer(Bm25Settings())("generously") != analyzer(LUCENE)("generously")


@pytest.mark.parametrize(
    ("language", "text", "same", "stopped"),
    [
        ("french", "L'installation des paquets", "installations paquet", "les d' qu’ c'"),
        ("italian", "dell'installazione dei pacchetti", "installazioni pacchetto", "l' della un'"),
        ("german", "Die Installation von PAKETEN", "installationen Pakete", "und der wie"),
        ("russian", "Установка пакетов", "установке пакеты", "и в как"),
        ("spanish", "instalación de los paquetes", "INSTALACIÓN paquete", "el y con"),
        ("swedish", "installationen av paketen", "installation paket", "och att"),
        ("turkish", "ISPARTA İstanbul", "ısparta istanbul", "ve çok"),
        ("greek", "ΤΟΠΟΣ", "τόπος", ""),
        ("hindi", "किताबें", "किताब", ""),
        ("arabic", "الملفات", "ملف", ""),
    ],
)
def test_a_language_has_its_stemmer_and_its_stop_words(
    language: Any, text: str, same: str, stopped: str
) -> None:
    analyze = analyzer(Bm25Settings(stemmer=language))
    assert analyze(text) == analyze(same) != []
    assert analyze(stopped) == []


def test_every_stemmer_of_snowball_is_a_setting() -> None:
    names = get_args(parts.Stemmer)
    assert set(names) == {*Stemmer.algorithms(), "none"}
    for name in names:
        assert analyzer(Bm25Settings(stemmer=name))("lorem")


@given(st.text(max_size=200))
def test_tokens_are_lower_case_and_the_same_each_time(text: str) -> None:
    tokens = analyzer(Bm25Settings())(text)
    assert tokens == analyzer(Bm25Settings())(text)
    assert all(token and not any(character.isspace() for character in token) for token in tokens)
    assert analyzer(PLAIN)(text + " . " + text) == analyzer(PLAIN)(text) * 2


def test_long_words_take_linear_time() -> None:
    for text in ("aB" * 100_000, "a." * 100_000, "a'" * 100_000):
        assert analyzer(Bm25Settings())(text)
    for text in ("_" * 200_000, "'" * 200_000):
        assert analyzer(Bm25Settings())(text) == []
