"""Words of every script, through the systems that search by words: BM25, SQLite's FTS5 and grep."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest

import branchrank as br
from branchrank.documents.loading import read_documents

SYSTEMS = ("bm25", "sqlite", "grep")
SPACED = {
    "hindi": "दिन में हरी चाय की पत्तियाँ",
    "bengali": "বাংলা ভাষায় ইনস্টলেশন নির্দেশিকা",
    "tamil": "நிறுவல் வழிகாட்டி கோப்புகள்",
    "telugu": "తెలుగు సంస్థాపన మార్గదర్శి",
    "arabic": "تَثْبِيت الحزم والملفات",
    "persian": "می‌خواهم پرونده‌ها نصب‌شده",
    "hebrew": "הַתְקָנָה קבצים",
    "greek": "Εγκατάσταση πακέτων",
    "russian": "Установка пакетов ёлка",
    "korean": "녹차는 물로 우려냅니다",
    "vietnamese": "Cài đặt phần mềm",
    "amharic": "የመጫኛ መመሪያ",
}
UNSPACED = {
    "chinese": "最大重试次数可以在设置文件中修改",
    "japanese": "美味しい緑茶は八十度のお湯で淹れますカーソル",
    "thai": "วิธีการติดตั้งโปรแกรมในเครื่อง",
    "lao": "ວິທີຕິດຕັ້ງໂປຣແກຣມ",
    "khmer": "របៀបដំឡើងកម្មវិធី",
    "burmese": "ဆော့ဖ်ဝဲထည့်သွင်းနည်း",
}
FOLDED = {
    "istanbul.md": "# City\n\nİstanbul is large, and so is ISPARTA.\n",
    "strasse.md": "# Road\n\nDie Straße heißt GROẞE Allee, ﬁnal.\n",
    "decomposed.md": f"# Coffee\n\n{unicodedata.normalize('NFD', 'Ein café für Männer')}\n",
    "soft.md": "# Carbon\n\nDie Kohlenstoff&shy;kontrolle, Wasser\u00adstoff und Zucker\u200bguss.\n",
    "soft.adoc": "= Steam\n\nDie Dampf&shy;maschine und das Schiff&#173;fahrts&ZeroWidthSpace;amt.\n",
    "mixed.md": "# Mix\n\n使用proxy服务器，也用v2版。\n",
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[br.Workspace]:
    root = tmp_path_factory.mktemp("scripts")
    corpus = root / "corpus"
    corpus.mkdir()
    for name, text in (SPACED | UNSPACED).items():
        (corpus / f"{name}.md").write_text(f"# {name}\n\n{text}\n", encoding="utf-8")
    for name, text in FOLDED.items():
        (corpus / name).write_text(text, encoding="utf-8")
    with br.Workspace.build(corpus, root / "data", embedder="fake") as made:
        yield made


def found(workspace: br.Workspace, system: str, query: str) -> list[str]:
    """Return the sources that a search by words alone finds."""
    if system == "sqlite":
        return [hit.source for hit in workspace.search_documents(query, mode="keyword")]
    hits = workspace.search(query, system, k=10)
    return [hit.source for hit in hits if system == "bm25" or "grep" in hit.branches]


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("name", SPACED)
def test_each_word_finds_its_page_first(workspace: br.Workspace, system: str, name: str) -> None:
    for word in SPACED[name].split():
        assert found(workspace, system, word)[:1] == [f"{name}.md"], word
        assert found(workspace, system, word.upper())[:1] == [f"{name}.md"], word


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("name", UNSPACED)
def test_each_run_of_letters_finds_its_page_first(workspace: br.Workspace, system: str, name: str) -> None:
    letters: list[str] = []
    for character in UNSPACED[name]:
        if unicodedata.category(character).startswith("M"):
            letters[-1] += character
        else:
            letters.append(character)
    for size in (2, 3, 5):
        for start in range(0, len(letters) - size + 1, 3):
            run = "".join(letters[start : start + size])
            assert found(workspace, system, run)[:1] == [f"{name}.md"], run
    assert found(workspace, system, UNSPACED[name])[:1] == [f"{name}.md"]


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize(
    ("query", "source"),
    [
        ("istanbul", "istanbul.md"),
        ("İSTANBUL", "istanbul.md"),
        ("ısparta", "istanbul.md"),
        ("STRASSE", "strasse.md"),
        ("heisst", "strasse.md"),
        ("große", "strasse.md"),
        ("FINAL", "strasse.md"),
        ("café", "decomposed.md"),
        ("MÄNNER", "decomposed.md"),
        ("Kohlenstoffkontrolle", "soft.md"),
        ("Wasserstoff", "soft.md"),
        ("Zucker\u00adguss", "soft.md"),
        ("Dampfmaschine", "soft.adoc"),
        ("Schifffahrtsamt", "soft.adoc"),
        ("proxy", "mixed.md"),
        ("服务", "mixed.md"),
        ("v2", "mixed.md"),
        ("how do I use 服务器?", "mixed.md"),
    ],
)
def test_case_and_invisible_characters_are_ignored(
    workspace: br.Workspace, system: str, query: str, source: str
) -> None:
    assert found(workspace, system, query)[:1] == [source]


def test_soft_hyphens_are_not_in_the_index_and_stay_in_the_text(workspace: br.Workspace) -> None:
    (hit,) = workspace.search("Wasserstoff", "bm25", k=1)
    assert "Kohlenstoff&shy;kontrolle, Wasser\u00adstoff und Zucker\u200bguss" in hit.text
    chunks = [chunk.text for chunk in workspace.index.chunks.stream()]
    assert any("Kohlenstoffkontrolle, Wasserstoff und Zuckerguss" in text for text in chunks)
    assert any("Dampfmaschine" in text for text in chunks)
    assert not any("\u00ad" in text or "\u200b" in text for text in chunks)


@pytest.mark.parametrize(
    ("source", "text", "ids", "label"),
    [
        ("a.md", "# T\n\n## हिन्दी भाषा में\n", ["हिन्दी-भाषा-में"], "हिन्दी-भाषा-में"),
        ("a.md", "# T\n\n## การติดตั้ง V2\n", ["การติดตั้ง-v2"], "การติดตั้ง-v2"),
        ("a.md", "# T\n\n## Wasser&shy;stoff\n", ["wasserstoff"], "wasserstoff"),
        ("a.adoc", "= T\n\n[#நிறுவல்]\n== கோப்பு\n", ["கோப்பு"], "நிறுவல்"),
        ("a.adoc", "= T\n\n== বাংলা ভাষা\n", ["বাংলা-ভাষা"], "_বাংলা_ভাষা"),
        ("a.rst", "T\n=\n\n.. _కోడ్ పేరు:\n\nతెలుగు\n------\n", ["తెలుగు"], "కోడ్ పేరు"),
        ("a.html", "<h1>T</h1>\n<h2 id='שָׁלוֹם'>ตั้ง ค่า</h2>\n<p>x</p>", ["ตั้ง-ค่า"], "שָׁלוֹם"),
    ],
)
def test_ids_and_anchors_keep_marks(
    tmp_path: Path, source: str, text: str, ids: list[str], label: str
) -> None:
    (tmp_path / source).write_text(text, encoding="utf-8")
    (document,) = read_documents(tmp_path, [source], [])
    assert [section.id.partition("#")[2] for section in document.sections[1:]] == ids
    assert label in {each.name for each in document.labels}
