"""Source code: definitions as sections, with the lines of the file, and limits on what parsing may take."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from documents.invariants import problems_of
from support.commands import invoke
from support.limits import limited

from branchrank.core.errors import CorpusError
from branchrank.documents import source_code
from branchrank.documents.code_outline import GRAMMARS
from branchrank.documents.loading import ALL_CODE, discover
from branchrank.documents.reading import read_document

PYTHON = b'''#!/usr/bin/env python
"""Make tea."""

import os

# How long to brew.
@cache
def brew(leaves):
    """Brew the leaves.

    Then wait.
    """
    # a step
    def pour():
        return 1
    return pour()

HOT = 96


class Pot(Vessel):
    """A pot."""
    size = 4

    @property
    def lid(self): return 1
    async def fill(self):
        pass
    color = "red"
'''


def outline(source: str, content: bytes) -> list[tuple[int, str, int, int]]:
    """The level, title and own lines of each section but the first."""
    sections = read_document(source, content).sections[1:]
    return [(each.level, each.title, each.line_start, each.own_line_end) for each in sections]


def test_a_module_has_a_section_for_each_definition_and_for_other_code_after_them() -> None:
    document = read_document("shop/tea.py", PYTHON)
    assert (document.title, document.sections[0].own_line_end, document.notes) == ("shop/tea.py", 5, ())
    assert outline("shop/tea.py", PYTHON) == [
        (1, "brew", 6, 12),
        (2, "pour", 13, 15),
        (2, "return pour", 16, 17),
        (1, "HOT", 18, 20),
        (1, "Pot", 21, 24),
        (2, "lid", 25, 26),
        (2, "fill", 27, 28),
        (2, "color", 29, 29),
    ]
    assert document.sections[2].id == "shop/tea.py#brew/pour"
    blocks = [(b.kind, b.text, b.line_start, b.line_end) for s in document.sections[:4] for b in s.blocks]
    assert blocks == [
        ("prose", "/usr/bin/env python\nMake tea.", 1, 2),
        ("code", "import os", 4, 4),
        ("prose", " How long to brew.", 6, 6),
        ("code", "@cache\ndef brew(leaves):", 7, 8),
        ("prose", "    Brew the leaves.", 9, 9),
        ("prose", "    Then wait.", 11, 11),
        ("code", "    # a step\n    def pour():\n        return 1", 13, 15),
        ("code", "    return pour()", 16, 16),
    ]


LANGUAGES = {
    "a.js": (
        b"/* page */\n\n// about f\nexport const f = async () => {\n  return 1\n}\n"
        b"class A {\n  #x = 1\n  go() {}\n  h = () => 1\n}\nmodule.exports = A\n",
        [("f", 1, 3), ("A", 1, 7), ("go", 2, 9), ("h", 2, 10), ("module.exports", 1, 12)],
    ),
    "a.tsx": (
        b"/** doc */\n@dec()\nexport default class A<T> {\n  m(): void {}\n}\n"
        b"interface I { a: string }\nexport type T = string\nenum E { A }\n"
        b"namespace N {\n  export function g() { return <b>1</b> }\n}\n",
        [("A", 1, 1), ("m", 2, 4), ("I", 1, 6), ("T", 1, 7), ("E", 1, 8), ("N", 1, 9), ("g", 2, 10)],
    ),
    "a.go": (
        b"package a\n\n// A is a.\ntype A struct { x int }\ntype (\n\tB int\n"
        b"\t// C doc\n\tC interface { Foo() }\n)\n"
        b"func (s *Server[T]) M(a int) error { return nil }\nfunc F() {}\n",
        [("A", 1, 3), ("B", 1, 5), ("C", 1, 7), ("Server.M", 1, 10), ("F", 1, 11)],
    ),
    "a.rs": (
        b"//! crate\n\n/// doc\n#[derive(Debug)]\npub struct A { x: i32 }\nimpl<T> fmt::Display for A<T> {\n"
        b"    /// doc f\n    pub fn f(&self) {}\n    const X: i32 = 1;\n}\nmod tests;\ntrait T {}\n",
        [
            ("A", 1, 3),
            ("impl<T> fmt::Display for A<T>", 1, 6),
            ("f", 2, 7),
            ("const X", 2, 9),
            ("mod tests", 1, 11),
            ("T", 1, 12),
        ],
    ),
    "a.java": (
        b"package a;\n/** doc */\n@X\npublic class A<T> extends B {\n    @Override\n    public void m() {}\n"
        b"    A() {}\n"
        b"    interface I {\n        void m();\n    }\n    record R(int a) {}\n}\n",
        [("A", 1, 2), ("m", 2, 5), ("A", 2, 7), ("I", 2, 8), ("m", 3, 9), ("R", 2, 11)],
    ),
    "a.h": (
        b"#ifndef A\n#define A\nstruct point { int x; };\ntypedef struct {\n  int a;\n} thing_t;\n"
        b"struct point origin;\nint *helper(void);\nstatic int *f(void) { return 0; }\n#endif\n",
        [("point", 1, 3), ("thing_t", 1, 4), ("struct point origin", 1, 7), ("f", 1, 9)],
    ),
    "b.h": (
        b"/// doc\ntemplate <typename T>\nclass Foo : public Bar {\n"
        b" public:\n  int bar(int a) const { return a; }\n};\n"
        b"namespace a {\nint &Foo::baz(int a) { return a; }\nFoo::~Foo() {}\n}\nenum class E { A };\n",
        [("Foo", 1, 1), ("bar", 2, 4), ("a", 1, 7), ("Foo::baz", 2, 8), ("Foo::~Foo", 2, 9), ("E", 1, 11)],
    ),
}


@pytest.mark.parametrize("source", LANGUAGES)
def test_definitions_of_each_language(source: str) -> None:
    content, expected = LANGUAGES[source]
    assert [(title, level, start) for level, title, start, _ in outline(source, content)] == expected
    assert problems_of(source, content, target_tokens=12, scan=False) == []


AFTER_NESTED = {
    "loop.py": (
        b"def train(model):\n    def log(m):\n        print(m)\n\n    # each batch\n    for batch in model:\n"
        b"        log(\n            batch,\n        )\n    return model\n",
        [(1, "train", 1, 1), (2, "log", 2, 4), (2, "for batch in model", 5, 10)],
    ),
    "branches.py": (
        b"def deco(f):\n    if f:\n        @wraps(\n            f,\n        )\n        def w():\n"
        b"            return 1\n    else:\n        w = 3\n    return w\n",
        [(1, "deco", 1, 2), (2, "w", 3, 7), (2, "else", 8, 10)],
    ),
    "module.py": (
        b"try:\n    import a\nexcept ImportError:\n    class A: pass\nfinally:\n    b = 1\nc = 2\n",
        [(1, "A", 4, 4), (1, "finally", 5, 7)],
    ),
    "class.py": (
        b"def make():\n    class A:\n        def f(self):\n            go()\n        n = 1\n    return A\n",
        [(1, "make", 1, 1), (2, "A", 2, 2), (3, "f", 3, 4), (3, "n", 5, 5), (2, "return A", 6, 6)],
    ),
    "a.js": (
        b"function tea(x) {\n  if (x) {\n    function go() {}\n  } else {\n    brew()\n  }\n  return x\n}\n",
        [(1, "tea", 1, 2), (2, "go", 3, 4), (2, "brew", 5, 8)],
    ),
    "a.rs": (
        b"fn f() {\n    fn g() {}\n    g();\n}\n",
        [(1, "f", 1, 1), (2, "g", 2, 2), (2, "g", 3, 4)],
    ),
    "a.cpp": (
        b"int f() {\n  struct P {\n    int x;\n  };\n  P p;\n  return p.x;\n}\n"
        b"template <\n  typename T\n>\nclass A {};\n",
        [(1, "f", 1, 1), (2, "P", 2, 4), (2, "P p", 5, 7), (1, "A", 8, 11)],
    ),
}


@pytest.mark.parametrize("source", AFTER_NESTED)
def test_code_after_a_nested_definition_belongs_to_the_outer_one(source: str) -> None:
    content, expected = AFTER_NESTED[source]
    assert outline(source, content) == expected
    assert problems_of(source, content, target_tokens=12, scan=False) == []


def test_a_definition_that_does_not_start_its_line_joins_the_section_that_owns_the_line() -> None:
    document = read_document("a.js", b"function a() {\n} function b() {}\nclass C { d() {} }\n")
    assert [(each.title, each.line_start) for each in document.sections[1:]] == [("a", 1), ("C", 3)]
    (note,) = document.notes
    assert note.startswith("line 2: 2 definitions ")


#: tree-sitter's recovery from errors takes minutes for some of these in some languages.
REPEATED = ["(", "{", "[", "<", "a<", "a = ", "a => ", "@", "/*", "\0", '"', "`${"]
REPEATED += ["if x:\n ", "else if (a) "]


@pytest.mark.full
@pytest.mark.parametrize("suffix", sorted({grammar: suffix for suffix, grammar in GRAMMARS.items()}.values()))
def test_the_time_and_memory_for_any_file_are_limited(suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_code, "CPU_SECONDS", 0.2)
    for unit in REPEATED:
        for content in (unit * 9000, f"int f() {{\n x = {unit * 9000};\n}}\nint g(void) {{ return 1; }}\n"):
            with limited(cpu_s=10, wall_s=60, growth_mib=512):
                assert problems_of(f"a{suffix}", content.encode(), target_tokens=50, scan=False) == []


def test_a_file_whose_parsing_takes_too_long_is_plain_text_and_the_next_file_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(source_code, "CPU_SECONDS", 0.2)
        document = read_document("a.c", b"a => " * 9000)
    assert len(document.notes) == 1
    assert [len(section.blocks) for section in document.sections] == [1]
    assert outline("a.c", b"\nint f(void) {\n}") == [(1, "f", 2, 3)]


def test_a_large_file_is_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_code, "MAX_BYTES", 10)
    document = read_document("a.py", b"def f():\n  pass\n")
    (note,) = document.notes
    assert "10 bytes" in note


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"\xef\xbb\xbfdef f():\r\n\tpass\r\n", [(1, 2)]),
        (b"# caf\xe9\n\ndef f():\n    pass", [(3, 4)]),
        (b"x = '" + b"a" * 500_000 + b"'\ndef f(): pass\n", [(2, 2)]),
        (b"def f():\n\0\n  pass\n", [(1, 3)]),
        (b"", []),
    ],
)
def test_odd_bytes(content: bytes, lines: list[tuple[int, int]]) -> None:
    assert [(start, end) for _, _, start, end in outline("a.py", content)] == lines


def test_source_code_is_a_document_only_if_asked_for(tmp_path: Path) -> None:
    for name in ("guide.md", "conf.py", "web/app.js"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x\n")
    assert [each.source for each in discover(tmp_path).files] == ["guide.md"]
    (note,) = discover(tmp_path).notes
    assert note.startswith("indexed 1; skipped 2: 1 .js (source code")
    assert note.count("--code") == 2
    found = [each.source for each in discover(tmp_path, [ALL_CODE, "web"]).files]
    assert found == ["conf.py", "guide.md"]
    assert [each.source for each in discover(tmp_path, ["!*.js"]).files] == ["guide.md", "web/app.js"]
    (tmp_path / "guide.md").unlink()
    with pytest.raises(CorpusError) as error:
        discover(tmp_path)
    assert f"branchrank index {tmp_path} --code" in error.value.remedy


def test_index_with_code_finds_a_function_and_shows_the_tree(tmp_path: Path) -> None:
    source, data = tmp_path / "src", tmp_path / "data"
    source.mkdir()
    (source / "tea.py").write_bytes(PYTHON)
    (source / "guide.md").write_text("# Guide\n\nText.\n")
    done = invoke("index", source, "--data-dir", data, "--embedder", "fake", "--code")
    assert done.exit_code == 0, done.stderr
    found = invoke("retrieve", "--data-dir", data, "how to brew the leaves", "--json")
    hit = msgspec.json.decode(found.stdout)["hits"][0]
    assert (hit["source"], hit["line_start"]) == ("tea.py", 6)
    shown = invoke("pageindex", "show", "--data-dir", data).stdout
    assert [word in shown for word in ("brew", "pour", "Pot", "lid")] == [True] * 4

    assert "1 .py" in invoke("index", "--data-dir", data, "--no-code").stderr
    assert "brew" not in invoke("pageindex", "show", "--data-dir", data).stdout
