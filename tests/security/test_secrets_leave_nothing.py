"""No key or password is left in any file, output or cache of a whole flow, however it is written."""

from __future__ import annotations

import base64
import gzip
import io
import json
import random
import sqlite3
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
import zstandard
from support import draw, harness
from support.canaries import Search, canary
from support.secret_flows import key_variables, planted, run_flows, run_more_flows

SEED = 42
#: Draws of secrets in the long form.
DRAWS = 2


def test_no_flow_stores_a_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with planted(tmp_path, SEED, monkeypatch) as place:
        run_flows(place)
        assert place.leaks() == {}


@pytest.mark.campaign
def test_no_flow_stores_a_secret_with_odd_characters(tmp_path: Path) -> None:
    started, commands, leaks = time.monotonic(), 0, {}
    for number in draw.some(range(DRAWS)):
        with (
            pytest.MonkeyPatch.context() as patched,
            planted(tmp_path / str(number), SEED + number, patched, odd=number > 0) as place,
        ):
            run_flows(place)
            run_more_flows(place)
            leaks |= {f"draw {number}: {name}": found for name, found in place.leaks().items()}
            commands += len(place.printed)
    harness.record(
        "secrets",
        harness.Part(
            part="secrets",
            trials=commands,
            leaked=len(leaks),
            seconds=round(time.monotonic() - started, 1),
            seed=SEED,
        ),
    )
    assert leaks == {}


def test_every_key_of_the_environment_is_planted() -> None:
    assert {"BRANCHRANK_LLM_KEY", "BRANCHRANK_TOKEN", "OPENAI_API_KEY"} <= set(key_variables())


def _zipped(text: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/sharedStrings.xml", text)
    return content.getvalue()


@pytest.mark.parametrize(
    "hide",
    [
        pytest.param(lambda text: text, id="raw"),
        pytest.param(lambda text: text.swapcase(), id="reversed case"),
        pytest.param(lambda text: quote(text.decode(), safe="").encode(), id="URL-encoded"),
        pytest.param(lambda text: text.hex().encode(), id="hex"),
        pytest.param(lambda text: json.dumps(text.decode()).encode(), id="JSON"),
        pytest.param(lambda text: base64.b64encode(b"user:" + text + b"!"), id="base64 behind 5 bytes"),
        pytest.param(lambda text: base64.urlsafe_b64encode(b"user" + text + b"!!"), id="base64 behind 4"),
        pytest.param(lambda text: base64.b64encode(b"use" + text), id="base64 behind 3"),
        pytest.param(lambda text: b"..." + gzip.compress(b"x" * 50 + text), id="gzip"),
        pytest.param(lambda text: b"..." + zlib.compress(b"x" * 50 + text), id="zlib"),
        pytest.param(lambda text: b"..." + zstandard.compress(b"x" * 50 + text), id="zstd"),
        pytest.param(lambda text: _zipped(b"x" * 50 + text), id="zip"),
        pytest.param(
            lambda text: b"<img src=data:;base64," + base64.b64encode(gzip.compress(text)), id="HTML"
        ),
    ],
)
@pytest.mark.parametrize("odd", [False, True])
def test_the_search_finds_planted_secrets(hide: Callable[[bytes], bytes], odd: bool) -> None:
    draw = random.Random(SEED)
    secret, other = canary(draw, odd=odd), canary(draw, odd=odd)
    hidden = hide(secret.encode())
    assert {found.partition(",")[0] for found in Search({"one": secret, "two": other})(hidden)} == {"one"}
    assert not Search({"two": other})(hidden)


def test_the_search_reads_rows_that_cross_pages(tmp_path: Path) -> None:
    secret = canary(random.Random(SEED))
    with sqlite3.connect(tmp_path / "calls.sqlite") as db:
        db.execute("PRAGMA journal_mode = wal")
        db.execute("PRAGMA page_size = 512")
        db.execute("CREATE TABLE calls (text)")
        db.executemany("INSERT INTO calls VALUES (?)", [("x" * n + secret,) for n in (470, 480, 490, 4070)])
    assert Search({"one": secret}).folder(tmp_path)
    db.close()
