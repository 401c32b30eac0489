"""What an index says about the scripts and the language of its corpus: shares, model, stemmer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import invoke

import branchrank as br
from branchrank.index.embedders.hub import card_languages

ENGLISH = "The server reads the settings of a file, and it writes what it has done to the log of the day. "
SENTENCES = {
    "english": ENGLISH,
    "german": "Der Server liest die Einstellungen aus einer Datei und schreibt in das Protokoll was er tat ",
    "french": "Le serveur lit les paramètres dans un fichier et il écrit dans le journal ce qu'il a fait. ",
    "polish": "Serwer czyta ustawienia z pliku, zapisuje wynik pracy, następnie kończy swoje działanie. ",
    "russian": "Сервер читает настройки из файла и пишет в журнал то, что он сделал. ",
    "greek": "Ο διακομιστής διαβάζει τις ρυθμίσεις από ένα αρχείο. ",
    "hindi": "सर्वर फ़ाइल से सेटिंग पढ़ता है और लॉग में लिखता है। ",
    "japanese": "サーバーは設定ファイルを読み、ログに書き込みます。",
    "thai": "เซิร์ฟเวอร์อ่านการตั้งค่าจากไฟล์",
}
FITTING = {
    "english": {"english", "porter"},
    "german": {"german"},
    "french": {"french"},
    "polish": {"polish", "none"},
    "russian": {"russian", "serbian"},
    "greek": {"greek"},
    "hindi": {"hindi", "nepali"},
    "japanese": {"none"},
    "thai": {"none"},
}


def printed(tmp_path: Path, text: str, *flags: str) -> list[str]:
    """Build an index of one page, and return the notes about its scripts and its language."""
    corpus = tmp_path / "corpus"
    corpus.mkdir(exist_ok=True)
    (corpus / "page.md").write_text(text, encoding="utf-8")
    result = invoke("index", corpus, "--data-dir", tmp_path / "data", "--quiet", *flags)
    assert result.exit_code == 0, result.output
    return [line for line in result.stderr.splitlines() if line.startswith("note: ")]


@pytest.mark.parametrize("language", SENTENCES)
def test_the_note_names_the_stemmer_of_the_corpus(tmp_path: Path, language: str) -> None:
    text = SENTENCES[language] * 20
    for stemmer in ("english", "tamil", *FITTING[language]):
        notes = printed(tmp_path, text, "--embedder", "none", "--bm25-stemmer", stemmer)
        named = [note.rpartition("--bm25-stemmer ")[2] for note in notes if "--bm25-stemmer" in note]
        if stemmer in FITTING[language] or (stemmer == "tamil" and text.isascii()):
            assert named == []
        elif stemmer == "english":
            (name,) = named
            assert set(name.split(" or ")) == ({"LANGUAGE"} if language == "polish" else FITTING[language])


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        (ENGLISH, {"Latin": 1.0}),
        ("日本ガス and a", {"Han": 0.25, "Katakana": 0.25, "Latin": 0.5}),
        ("เซต हन ＡＢ ｶス한", {"Thai": 0.3, "Devanagari": 0.2, "Latin": 0.2, "Katakana": 0.2, "Hangul": 0.1}),
    ],
)
def test_the_shares_of_scripts_are_measured_and_printed(
    tmp_path: Path, text: str, shares: dict[str, float]
) -> None:
    notes = " ".join(printed(tmp_path, text, "--embedder", "none"))
    with br.Workspace.open(tmp_path / "data") as workspace:
        assert workspace.index.manifest.scripts == pytest.approx(shares, abs=1e-4)
    for script, share in shares.items():
        assert (f"{share:.0%} {script}" in notes) == (len(shares) > 1)


@pytest.mark.parametrize(
    ("foreign", "doubtful"), [("", False), ("設定", False), ("設定ファイル" * 4, True), ("сервер " * 5, True)]
)
def test_an_english_model_on_another_script_is_a_caution(
    tmp_path: Path, foreign: str, doubtful: bool
) -> None:
    gold = {
        "question": "what is read?",
        "source_file": "page.md",
        "answer_line_start": 1,
        "answer_line_end": 1,
    }
    questions = tmp_path / "questions.jsonl"
    questions.write_text(json.dumps(gold))
    notes = printed(tmp_path, ENGLISH + foreign, "--embedder", "all-MiniLM-L6-v2")
    said = [note for note in notes if "all-MiniLM-L6-v2" in note]
    assert len(said) == doubtful
    assert all(part in note for note in said for part in ("bm25", "--embedder", "(en)"))
    with br.Workspace.open(tmp_path / "data") as workspace:
        run = workspace.benchmark(["dense"], questions=questions, reports=tmp_path / "reports")
    report = run.report()[0].read_text(encoding="utf-8")
    assert ("compare --predictor bm25" in report) == doubtful


@pytest.mark.parametrize(
    ("card", "languages"),
    [
        ("---\nlanguage: en\nlicense: mit\n---\n# Model\n", ("en",)),
        ("---\nlanguage:\n- en\n- zh-CN\n---\n", ("en", "zh-CN")),
        ("---\nlanguage: multilingual\n---\n", ()),
        ("---\nlicense: mit\n---\n", ()),
        ("# Model\n", ()),
        ("---\nlanguage: [en\n---\n", ()),
    ],
)
def test_the_languages_of_a_model_card(tmp_path: Path, card: str, languages: tuple[str, ...]) -> None:
    (tmp_path / "README.md").write_text(card)
    assert card_languages(tmp_path) == languages
    assert card_languages(tmp_path / "nowhere") == ()
