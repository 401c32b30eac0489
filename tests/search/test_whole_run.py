"""A whole benchmark with LLM arms, through the command: keys stay out, a replay equals the recording."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest
from support import scripted_llm as scripted
from support.commands import ROOT, program
from support.scripted_llm import Action, Chat, ScriptedLLM

REPRODUCED = ("rows.jsonl", "questions.csv", "summary.csv", "llm_calls.csv")
OWN_KEY = "sk-planted/own+key-1234"
URL_KEY = "planted-url-key-5678"
SECRETS = (OWN_KEY, URL_KEY, "sk-planted-openai-99")
ENVIRONMENT = {"BRANCHRANK_LLM_KEY": OWN_KEY, "OPENAI_API_KEY": SECRETS[2], "HF_HUB_OFFLINE": "1"}


def chatter(chat: Chat, number: int) -> Action:
    """Names the first entries and echoes every credential it was sent; fails now and then, as loudly."""
    heard = f"{chat.headers.get('authorization')} {chat.path}"
    if number % 5 == 0:
        return scripted.fail(400, heard)
    return scripted.say(json.dumps({"ids": list(chat.entries)[:4], "note": heard}))


def command(folder: Path, base_url: str, *extra: str) -> subprocess.CompletedProcess[str]:
    arguments = ["--predictor", "hybrid", "--predictor", "pageindex", "--latency-sample", "0"]
    for part in ("hybrid", "pageindex"):
        arguments += [f"--{part}-base-url", base_url, f"--{part}-model", "m"]
    return program(ROOT / "benchmark_run.py", *arguments, *extra, cwd=folder, environment=ENVIRONMENT)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    (folder / "docs").mkdir()
    (folder / "data" / "benchmark").mkdir(parents=True)
    questions = []
    for number in range(1, 7):
        text = f"# Topic {number}\n\nAbout it.\n\n## Configure topic {number}\n\nSet alpha{number}.\n"
        (folder / "docs" / f"page{number}.md").write_text(text)
        questions.append(
            {
                "id": f"q{number}",
                "question": f"how do I configure topic {number}?",
                "source_file": f"page{number}.md",
                "answer_line_start": 5,
                "answer_line_end": 7,
            }
        )
    (folder / "data" / "branchrank.toml").write_text('corpus = "../docs"\n[index]\nembedder = "fake"\n')
    lines = "".join(json.dumps(question) + "\n" for question in questions)
    (folder / "data" / "benchmark" / "questions.jsonl").write_text(lines)
    return folder


@pytest.fixture(scope="module")
def runs(workspace: Path) -> list[tuple[Path, subprocess.CompletedProcess[str]]]:
    """A recording, and its replay with an endpoint where nothing listens."""
    with ScriptedLLM(chatter) as server:
        url = f"{server.base_url}?api_key={URL_KEY}"
        recorded = command(workspace, url, "--llm-record", "c.sqlite", "--reports", "recorded")
        assert server.requests[0].headers["authorization"] == f"Bearer {OWN_KEY}"
        assert URL_KEY in server.requests[0].path
    replayed = command(
        workspace, "http://127.0.0.1:9/v1", "--llm-replay", "c.sqlite", "--reports", "replayed"
    )
    ended = [("recorded", recorded), ("replayed", replayed)]
    for _, process in ended:
        assert process.returncode == 0, process.stderr
    return [(next((workspace / name).iterdir()), process) for name, process in ended]


def test_a_replay_equals_the_recording_byte_for_byte(
    runs: list[tuple[Path, subprocess.CompletedProcess[str]]],
) -> None:
    recorded, replayed = (directory for directory, _ in runs)
    for name in REPRODUCED:
        assert (recorded / name).read_bytes() == (replayed / name).read_bytes()
    calls = (recorded / "llm_calls.csv").read_text()
    assert "http 400" in calls
    assert "tree final" in calls


@pytest.mark.full
def test_a_replay_by_two_processes_equals_the_recording(
    workspace: Path, runs: list[tuple[Path, subprocess.CompletedProcess[str]]]
) -> None:
    words = ("--llm-replay", "c.sqlite", "--reports", "divided", "--jobs", "2")
    done = command(workspace, "http://127.0.0.1:9/v1", *words)
    assert done.returncode == 0, done.stderr
    [directory] = (workspace / "divided").iterdir()
    for name in REPRODUCED:
        assert (directory / name).read_bytes() == (runs[0][0] / name).read_bytes()


def test_no_key_is_in_any_file_or_output(
    workspace: Path, runs: list[tuple[Path, subprocess.CompletedProcess[str]]]
) -> None:
    texts = {str(path): path.read_bytes() for path in workspace.rglob("*") if path.is_file()}
    for directory, process in runs:
        texts[f"output of {directory}"] = (process.stdout + process.stderr).encode()
    assert len(texts) > 20
    for secret in SECRETS:
        raw = secret.encode()
        forms = [raw, quote(secret, safe="").encode()]
        forms += [base64.b64encode(b"\0" * shift + raw)[4:-4] for shift in range(3)]
        forms += [base64.urlsafe_b64encode(b"\0" * shift + raw)[4:-4] for shift in range(3)]
        for name, content in texts.items():
            for form in forms:
                assert form not in content, f"{secret} is in {name}"


def test_a_missing_call_ends_the_run_and_is_named(workspace: Path, runs: object) -> None:
    process = command(workspace, "http://127.0.0.1:9/v1", "--llm-replay", "c.sqlite", "--sample-seed", "7")
    assert process.returncode == 7
    assert re.search(r"question 'q\d', stage '[a-z ]+\d?'", process.stderr)
    assert "seed is 7, recorded 42" in process.stderr
    assert "Traceback" not in process.stderr


def test_an_unreachable_endpoint_is_refused_before_any_work(workspace: Path) -> None:
    process = command(workspace, f"http://127.0.0.1:9/v1?api_key={URL_KEY}", "--reports", "none")
    assert process.returncode == 7
    assert " http://127.0.0.1:9/v1" in process.stderr
    assert URL_KEY not in process.stderr
    assert not (workspace / "none").exists()


@pytest.mark.full
def test_a_recording_is_complete_after_an_interrupted_run_without_recording(workspace: Path) -> None:
    arm = ("--predictor", "pageindex", "--sample-seed", "5")
    with ScriptedLLM(lambda chat, number: scripted.ids(list(chat.entries)[:4])) as server:
        stopped = command(workspace, server.base_url, *arm, "--max-calls", "8", "--reports", "whole")
        assert stopped.returncode == 7, stopped.stderr
        assert next((workspace / "whole").glob("*/rows.jsonl")).stat().st_size > 0
        asked = len(server.requests)
        recorded = command(workspace, server.base_url, *arm, "--llm-record", "w.sqlite", "--reports", "whole")
        assert recorded.returncode == 0, recorded.stderr
        # Nothing is spent twice: what the stopped run asked comes from the decision cache.
        prompts = [chat.prompt for chat in server.requests]
        assert len(set(prompts)) == len(prompts) > asked
    replayed = command(
        workspace, "http://127.0.0.1:9/v1", *arm, "--llm-replay", "w.sqlite", "--reports", "whole2"
    )
    assert replayed.returncode == 0, replayed.stderr


PRICES = """
date = 2026-02-01
currency = "EUR"
[models.m]
prompt = 100
completion = 1000
"""


def test_a_dry_run_shows_the_maximum_cost(workspace: Path) -> None:
    (workspace / "prices.toml").write_text(PRICES)
    dry = ("--dry-run", "--price-table", "prices.toml", "--llm-completion-tokens", "500", "--reports", "dry")
    process = command(workspace, "http://127.0.0.1:9/v1", *dry, "--pageindex-model", "unpriced")
    assert process.returncode == 0, process.stderr
    bound = re.search(
        r"at most 12 LLM calls and (\d+) tokens at m: ([\d.]+) EUR, prices of 2026-02-01", process.stdout
    )
    assert bound is not None
    prompt = int(bound[1]) - 12 * 500
    assert float(bound[2]) == pytest.approx((prompt * 100 + 6000 * 1000) / 1e6, abs=1e-4)
    assert "tokens at unpriced: no price" in process.stdout
    assert not (workspace / "dry").exists()
