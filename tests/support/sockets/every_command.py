"""Run as a program under ``LD_PRELOAD``: every command without a network, and what each tried to reach.

    LD_PRELOAD=deny_sockets.so DENIED_SOCKETS=FILE python -m support.sockets.every_command [COMMAND ...]

Each command runs in a forked process, in a copy of a folder that has an index, questions and a run. A line
of JSON tells each: its name, exit code, attempts, and what it printed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path

import click
from support.beir_folders import beir_folder
from support.commands import ROOT, every_command
from support.drawn import replace_drawing
from support.faults.scenarios import make_folder
from support.faults.trials import load_modules, program, scripted_server
from support.tokenizer import save_tokenizer

_INDEX = ("index", "docs", "--embedder", "fake:16", "--vector-store", "chroma", "--quiet")
_ASKED = ("--questions", "asked.jsonl", "--latency-sample", "1", "--quiet")
_BENCHMARK = ("benchmark", *_ASKED, "--predictor", "local", "--predictor", "sqlite")
_SAMPLE = ROOT / "data" / "sample" / "corpus"
_LLM = ("--base-url", "{server}", "--model", "m")
_EXPERIMENT = """
name = "tried"
questions = "asked.jsonl"

[benchmark]
latency_sample = 0

[systems.words]
branches = [{ kind = "bm25", top_n = 20 }]

[systems.both]
branches = [{ kind = "bm25", top_n = 20 }, { kind = "dense", top_n = 20 }]
"""

#: What some commands need besides.
_BEFORE = {
    "score-trec": ("export-trec", "{run}", "--output", "trec"),
    "pageindex import": ("pageindex", "export", "install.rst", "tree.json"),
    "adopt": ("index", "more", *_INDEX[2:], "--data-dir", "theirs"),
    "questions generate": ("index", str(_SAMPLE), *_INDEX[2:], "--data-dir", "long"),
}
#: The words after each command's name, and its exit code. What is in parentheses tells variants apart.
WORDS: dict[str, tuple[tuple[str, ...], int]] = {
    "demo": (("tried", "--quiet"), 0),
    "init": (("docs", "--data-dir", "started"), 0),
    "index": (("more", "--data-dir", "second", "--embedder", "fake:16", "--vector-store", "chroma"), 0),
    "index (MiniLM)": (("docs", "--embedder", "all-MiniLM-L6-v2", "--data-dir", "second"), 0),
    "index (a local model)": (("docs", "--data-dir", "second", "--embedder", "{model}"), 0),
    "adopt": (("theirs", "--data-dir", "adopted", "--corpus", "more", "--embedder", "fake:16"), 2),
    # A corpus is fetched: from the index of pip, which nothing reaches here.
    "corpus add": (("django",), 3),
    "corpus list": ((), 0),
    "retrieve": (("green tea",), 0),
    "hybrid": (("green tea", "--hybrid-no-llm"), 0),
    "ask": (("green tea", "--agent-base-url", "{server}", "--agent-model", "m"), 7),
    "benchmark (Qdrant)": ((*_ASKED, "--predictor", "qdrant"), 0),
    "benchmark": ((*_ASKED, "--predictor", "all", "--hybrid-no-llm", "--pageindex-no-llm"), 0),
    "pageindex build": ((), 0),
    "pageindex check": ((), 0),
    "pageindex export": (("install.rst", "tree.json"), 0),
    "pageindex import": (("tree.json", "install.rst", "imported.jsonl"), 0),
    "pageindex show": ((), 0),
    "pageindex summarize": (("summaries.jsonl", *_LLM), 0),
    "questions add": (("--question", "how?", "--source", "install.rst", "--lines", "14-15"), 0),
    "questions agreement": (("asked.jsonl", "asked.jsonl"), 2),
    "questions check": (("asked.jsonl",), 0),
    "questions generate": (("generated.jsonl", "--data-dir", "long", *_LLM, "--count", "2"), 7),
    "questions import": (("log.csv", "--output", "imported.jsonl"), 0),
    "questions label": (("{run}", "--output", "mine.jsonl", "--annotator", "me"), 0),
    "questions mine": ((str(_SAMPLE), "--output", "mined.jsonl"), 0),
    "questions reanchor": (("asked.jsonl",), 0),
    "questions split": (("asked.jsonl",), 0),
    "run": (("experiment.toml",), 0),
    "tune": (("experiment.toml", "--on", "asked.jsonl"), 0),
    "resume": (("{run}",), 3),
    "list": ((), 0),
    "show": (("{run}",), 0),
    "search": (("green tea",), 0),
    "calibrate": (("--questions", "asked.jsonl"), 0),
    "compare": (("{run}", "{run}"), 0),
    "advise": (("{run}",), 0),
    "datasets": (("one={run}", "two={run}"), 3),
    "gate": (("{run}", "--baseline", "{run}"), 0),
    "explain": (("{run}", "coffee"), 0),
    "verify": (("{run}",), 0),
    "report": (("{run}",), 0),
    "power": (("--questions", "154"), 0),
    "serve": (("--predictor", "local", "--port", "8765"), 2),
    "view": (("--port", "8766", "--no-open"), 2),
    "export-trec": (("{run}", "--output", "trec"), 0),
    "score-trec": (("trec/qrels.txt", "trec/local.run"), 0),
    "compare-trec": (("trec/qrels.txt", "trec/local.run", "trec/sqlite.run"), 0),
    "beir questions": (("beir", "--output", "beir.jsonl"), 0),
    "beir run": (("beir", "--embedder", "fake:16", "--latency-sample", "0", "--quiet"), 0),
    "mcp": (("--predictor", "local"), 0),
    "tui": ((), 2),
    "settings": ((), 0),
    "plugins": ((), 0),
    "check": ((), 0),
}


def commands() -> list[str]:
    """The names of all commands that are not groups."""
    return [" ".join(words) for words, each in every_command().items() if not isinstance(each, click.Group)]


def prepare(base: Path, server: str, chosen: Collection[str]) -> None:
    """A folder with everything that a command reads."""
    make_folder(base)
    (base / "log.csv").write_text("query,url\nhow to steep,guide/brewing.html\n", encoding="utf-8")
    (base / "experiment.toml").write_text(_EXPERIMENT, encoding="utf-8")
    if any(name.startswith("beir") for name in chosen):
        beir_folder(base / "beir", documents=20, queries=8)
    for words in (_INDEX, _BENCHMARK, *(words for name, words in _BEFORE.items() if name in chosen)):
        status, printed = program([word.replace("{server}", server) for word in words], base)
        assert status == 0, (words, printed)


def _saved_model(folder: Path) -> str:
    """Save the model in another process: saving asks the hub, and a fork after PyTorch was used hangs."""
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    code = (
        "import pathlib\nfrom support.sockets.every_command import save_model\n"
        f"save_model(pathlib.Path({str(folder)!r}))"
    )
    offline = {"HF_HUB_OFFLINE": "1"}
    subprocess.run([sys.executable, "-c", code], env=environment | offline, check=True, capture_output=True)
    return str(folder / "model")


def save_model(folder: Path) -> None:
    """A sentence-transformers model of one tiny layer, in ``folder/model``."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel

    vocabulary = save_tokenizer(folder / "plain", ["green", "tea", "how", "to"])
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=512,
    )
    BertModel(config).save_pretrained(folder / "plain")
    modules = [Transformer(str(folder / "plain")), Pooling(16)]
    SentenceTransformer(modules=modules, device="cpu").save(str(folder / "model"))


def attempts(file: Path) -> list[str]:
    """What was tried since the last call."""
    found = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return found


def main() -> None:
    """Run the commands that are named, or all."""
    denied = Path(os.environ["DENIED_SOCKETS"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    replace_drawing()
    chosen, model = sys.argv[1:] or list(WORDS), ""
    with tempfile.TemporaryDirectory() as folder, scripted_server() as server:
        os.environ["ALLOWED_PORT"] = server.rpartition(":")[2].partition("/")[0]
        base, copy = Path(folder).resolve() / "base", Path(folder).resolve() / "copy"
        base.mkdir()
        prepare(base, server, chosen)
        # Loading everything pays only where many commands follow.
        load_modules(base, _BENCHMARK if len(chosen) > 10 else ("retrieve", "green tea"))
        print(json.dumps({"command": "before", "code": 0, "attempts": attempts(denied)}), flush=True)
        for name in chosen:
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(base, copy, symlinks=True)
            if "{model}" in WORDS[name][0]:
                model = _saved_model(Path(folder))
            words = [
                *name.partition(" (")[0].split(),
                *(word.replace("{server}", server).replace("{model}", model) for word in WORDS[name][0]),
            ]
            code, printed = program(words, copy)
            told = {"command": name, "code": code, "attempts": attempts(denied), "printed": printed[-1500:]}
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
