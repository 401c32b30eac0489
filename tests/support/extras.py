"""Each extra of the package: a module that it installs, and a command that needs it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from support.commands import ROOT
from support.pdfs import pdf
from support.worlds import write_pages

NEW = "--data-dir new --embedder none"
#: The commands run in the folder of :func:`write_documents`, with a workspace ``data`` over ``docs``.
EXTRAS = {
    "qdrant": ("qdrant_edge", "retrieve tea --predictor qdrant"),
    "redis": ("redis", "retrieve tea --cache-redis-url redis://127.0.0.1:1"),
    "mcp": ("mcp", "mcp"),
    "datasets": ("ir_datasets", "beir run ir:beir/scifact/test"),
    "openvino": (
        "openvino",
        "index docs --data-dir new --embedder all-MiniLM-L6-v2 --embedder-precision bfloat16",
    ),
    "langchain": (
        "langchain_text_splitters",
        f"index docs {NEW} --chunker langchain:CharacterTextSplitter",
    ),
    "llamaindex": ("llama_index", f"index docs {NEW} --chunker llamaindex:SentenceSplitter"),
    "haystack": ("haystack", "benchmark --predictor haystack:haystack:Pipeline"),
    "pyterrier": ("pyterrier", "benchmark --predictor pyterrier:pyterrier:Transformer"),
    "chonkie": ("chonkie", f"index docs {NEW} --chunker chonkie:TokenChunker"),
    "pdf": ("pypdfium2", f"index papers {NEW}"),
    "code": ("tree_sitter_python", f"index sources {NEW} --code"),
    "ray": ("ray", f"index docs {NEW} --engine ray"),
}


def write_documents(folder: Path) -> None:
    """Write ``docs``, and a folder with a PDF and one with source code beside it."""
    write_pages(folder / "docs")
    files = {"papers/tea.pdf": pdf([["Tea"]]), "sources/tea.py": b"def tea():\n    return 418\n"}
    for name, content in files.items():
        (folder / name).parent.mkdir()
        (folder / name).write_bytes(content)


def declared(extra: str) -> list[set[Requirement]]:
    """The packages of an extra, as the only install command of an output."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [set(map(Requirement, project["optional-dependencies"][extra]))]


def printed(output: str) -> list[set[Requirement]]:
    """The packages of each install command in an output."""
    commands = re.findall(r'pip install ((?:"[^"]+" ?)+)', output)
    return [set(map(Requirement, re.findall('"([^"]+)"', each))) for each in commands]
