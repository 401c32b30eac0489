"""Whole flows of commands with a secret in every place that can hold one.

Servers send back what they were sent (headers and address), in answers and in errors. What the commands
print, and every file and Redis key that they leave, must hold no secret.
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote

import httpx2
import pytest
from redis import Redis
from support import scripted_llm as scripted
from support.canaries import Search, canary
from support.commands import ROOT, invoke, program, write_lines
from support.embedding_servers import EmbeddingServer, serving
from support.loopback import Reply
from support.redis_server import RedisServer
from support.worlds import write_pages

#: Variables that hold a secret of another program.
UNRELATED = (
    "AWS_SECRET_ACCESS_KEY",
    "GITHUB_TOKEN",
    "HF_TOKEN",
    "PGPASSWORD",
    "OPENAI_ADMIN_KEY",
    "OPENAI_ORG_ID",
)
_KEY = re.compile(r'"((?:BRANCHRANK|OPENAI)_[A-Z_]*(?:KEY|TOKEN))"')
#: A class of the user whose errors name a key.
_CLASS = """
import os

class Failing:
    def retrieve(self, query, k):
        raise RuntimeError("no answer to " + os.environ["OPENAI_API_KEY"])

class Unready:
    def __init__(self):
        raise RuntimeError("no answer to " + os.environ["BRANCHRANK_LLM_KEY"])
"""


def key_variables() -> list[str]:
    """The variables of keys that the code reads."""
    found = set()
    for path in (ROOT / "branchrank").rglob("*.py"):
        found |= set(_KEY.findall(path.read_text(encoding="utf-8")))
    return sorted(found)


@dataclass
class Place:
    """A folder, a home and servers, with the secrets that were planted there, by name."""

    folder: Path
    secrets: dict[str, str]
    llm: scripted.ScriptedLLM
    embeddings: EmbeddingServer
    redis: RedisServer
    printed: list[bytes] = field(default_factory=list)

    def url(self, address: str, *parameters: str) -> str:
        """The address with a user, a password and ``parameters`` that are secrets."""
        scheme, _, rest = address.partition("://")
        asked = "&".join(f"{name}={quote(self.secrets[name], safe='')}" for name in parameters)
        password = quote(self.secrets["password"], safe="")
        return f"{scheme}://user:{password}@{rest}" + (f"?{asked}" if asked else "")

    @property
    def redis_url(self) -> str:
        return self.redis.url.replace("://", f"://:{quote(self.secrets['redis'], safe='')}@")

    def command(self, *words: object, code: int | None = 0) -> str:
        """Run a command that must end with ``code``, if one is given; what it prints is kept."""
        result = invoke(*words)
        self.printed.append(result.output.encode() + result.stderr.encode())
        shown = result.output.encode()[-2000:]
        assert code in (None, result.exit_code), (words, result.exit_code, shown)
        return result.output

    def leaks(self) -> dict[str, set[str]]:
        """Where a secret is found, and how it is written."""
        search = Search(self.secrets)
        found = search.folder(self.folder / "work")
        for number, text in enumerate(self.printed, start=1):
            if leaked := search(text):
                found[f"printed by command {number}"] = leaked
        client = Redis(port=self.redis.port, password=self.secrets["redis"])
        keys = client.keys("*")
        assert keys, "the flows left nothing in Redis"
        for key in keys:
            if leaked := search(
                key
                + b"\n"
                + repr(client.hgetall(key) if client.type(key) == b"hash" else client.get(key)).encode()
            ):
                found[f"Redis {key!r}"] = leaked
        client.close()
        return found


@contextmanager
def planted(
    folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch, *, odd: bool = False
) -> Iterator[Place]:
    """Documents, questions, a home and servers, with secrets drawn by ``seed``."""
    draw = random.Random(seed)
    names = ("password", "redis", "api_key", "access_token", "proxy", "netrc")
    secrets = {name: canary(draw, odd=odd) for name in names}
    work, home = folder / "work", folder / "home"
    home.mkdir(parents=True)
    write_pages(work / "docs")
    write_lines(work / "asked.jsonl")
    (work / "own_predictor.py").write_text(_CLASS)
    monkeypatch.syspath_prepend(work)
    for variable in (*key_variables(), *UNRELATED):
        # A key is sent in a header, which takes any visible ASCII character.
        secrets[variable] = canary(draw, odd=odd)
        monkeypatch.setenv(variable, secrets[variable])
    (home / ".netrc").write_text(f"machine 127.0.0.1 login user password {secrets['netrc']}\n")
    (home / ".netrc").chmod(0o600)
    proxy = f"http://user:{quote(secrets['proxy'], safe='')}@127.0.0.1:9"
    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(variable, proxy)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(work / "cache"))
    monkeypatch.setenv("BRANCHRANK_EMBEDDING_KEY_HOST", "localhost")
    monkeypatch.chdir(work)
    with ExitStack() as opened:
        redis = RedisServer(folder, "--requirepass", secrets["redis"])
        opened.callback(redis.stop)
        llm = opened.enter_context(scripted.ScriptedLLM(_echo))
        embeddings = opened.enter_context(serving())
        yield Place(work.parent, secrets, llm, embeddings, redis)


def _echo(chat: scripted.Chat, number: int) -> scripted.Action:
    """Two answers of three, then an error; each repeats everything that it was sent."""
    heard = f"{chat.headers} {chat.path} {unquote(chat.path)}"
    if number % 3:
        return scripted.ids(list(chat.entries)[::-1], model=heard, system_fingerprint=heard, id=heard)
    return scripted.fail(400, f"wrong: {heard}", x_echo=chat.headers.get("authorization", ""))


def _refusal(server: EmbeddingServer) -> Reply:
    path, headers, _ = server.requests[-1]
    return Reply(
        {"error": f"{path} with {headers} is refused"}, 401, {"X-Echo": headers.get("authorization", "")}
    )


def run_flows(place: Place) -> None:
    """Index, search, benchmark with an LLM, read the results in every way, and fail in every way."""
    embedding = ("--embedder", "openai:m", "--embedding-url", place.url(f"{place.embeddings.url}/v1"))
    redis = ("--cache-redis-url", place.redis_url)
    llm = (
        "--hybrid-base-url",
        place.url(place.llm.base_url, "api_key", "access_token"),
        "--hybrid-model",
        "m",
    )
    place.command("index", "docs", *embedding, *redis, "--vector-store", "exact")
    place.command("retrieve", "green tea", *embedding)
    place.command("hybrid", "green tea", *embedding, *redis, *llm, "--json")
    asked = (
        "benchmark",
        "--questions",
        "asked.jsonl",
        *embedding,
        "--predictor",
        "hybrid",
        "--latency-sample",
        1,
    )
    place.command(*asked, *redis, *llm, "--llm-record", "calls.sqlite", "--llm-retries", 0)
    place.command(*asked, *llm, "--llm-replay", "calls.sqlite", "--predictor", "local")
    first, second = sorted(Path("reports").iterdir())
    for run in (first, second):
        place.command("verify", run)
        place.command("report", run)
    place.command("compare", first, second)
    place.command("list")
    place.command("show", first)
    place.command("explain", second, "coffee")
    place.command("export-trec", first, "--output", "trec")
    place.command(*asked[:-4], "--predictor", "own_predictor:Failing", "--latency-sample", 0, code=9)
    place.command(*asked[:-4], "--predictor", "own_predictor:Unready", code=2)
    place.embeddings.script += [lambda body: _refusal(place.embeddings)]
    place.command("retrieve", "black tea", *embedding, code=6)
    place.command("index", "docs", *embedding[:3], place.url(f"{place.embeddings.url}/v1", "api_key"), code=2)
    place.command("benchmark", "--predictor", "api", "--api-endpoint", place.url(place.llm.base_url), code=2)
    without_scheme = place.url("://h")[3:]
    place.command("benchmark", "--predictor", "api", "--api-endpoint", without_scheme, code=2)
    place.command("index", "docs", *embedding[:3], without_scheme, code=2)
    chroma = ("--vector-store", "chroma", "--chroma-url", place.url(place.embeddings.url))
    place.command("index", "docs", "--embedder", "fake", *chroma, code=2)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("BRANCHRANK_HYBRID_BASE_URL", place.url(place.llm.base_url, "api_key"))
        patched.setenv("BRANCHRANK_QDRANT_URL", without_scheme)
        place.command("settings")


#: A fault of the program whose message names a key.
_FAULT = """
import os
from branchrank import library

def fault(*words, **named):
    raise RuntimeError("no answer to " + os.environ["BRANCHRANK_LLM_KEY"])

library.list_runs = fault
from branchrank.frontends.cli.main import main
main(["list"])
"""

_EXPERIMENT = """
name = "planted"
questions = "asked.jsonl"

[[indexes]]
name = "served"
embedder = "openai:m"
embedding_url = "{embeddings}"

[[systems]]
name = "asked"
base = "hybrid"
index = "served"
llm = {{ base_url = "{llm}", model = "m" }}
"""


_WRONG_URLS = (
    "ftp://u:{}@h/v1",
    "http://u:{}@[h/v1",
    "http://u:{}@127.0.0.1:9/v1?key={}",
    "u:{}@h",
    "redis://{}@h",
)
_URL_FLAGS = ("--embedding-url", "--hybrid-base-url", "--cache-redis-url", "--qdrant-url", "--api-endpoint")


def run_more_flows(place: Place) -> None:
    """Servers, other stores and every way to name a server wrongly."""
    embedding = ("--embedder", "openai:m", "--embedding-url", place.url(f"{place.embeddings.url}/v1"))
    llm = ("--hybrid-base-url", place.url(place.llm.base_url, "api_key"), "--hybrid-model", "m")
    _serve(place, *embedding, *llm)
    _offer_tools(place, *embedding)
    for flag in ("--chroma-url", "--qdrant-url"):
        store = ("--vector-store", "chroma") if flag == "--chroma-url" else ("--predictor", "qdrant")
        place.command("index", "docs", *embedding, flag, place.url(place.embeddings.url), *store, code=None)
        place.command("benchmark", *embedding, flag, place.url(place.embeddings.url), *store, code=None)
    closed = place.redis_url.replace(str(place.redis.port), "9")
    place.command("index", "docs", *embedding, "--cache-redis-url", closed, "--vector-store", "exact")
    for url in _WRONG_URLS:
        written = url.replace("{}", quote(place.secrets["password"], safe=""))
        for flag in _URL_FLAGS:
            words = (
                "--embedder",
                "openai:m",
                "--predictor",
                "api" if "api" in flag else "hybrid",
                flag,
                written,
            )
            place.command("benchmark", "--questions", "asked.jsonl", *words, code=None)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PIP_INDEX_URL", place.url(place.embeddings.url))
        place.command("corpus", "add", "django", code=None)
        patched.setenv("BRANCHRANK_HYBRID_BASE_URL", place.url(place.llm.base_url, "api_key"))
        patched.setenv("BRANCHRANK_INDEX_EMBEDDING_URL", place.url(f"{place.embeddings.url}/v1"))
        patched.setenv("BRANCHRANK_INDEX_EMBEDDER", "openai:m")
        place.command("settings")
        place.command("hybrid", "green tea", code=None)
    inputs = place.folder / "inputs"
    inputs.mkdir()
    experiment = inputs / "experiment.toml"
    embeddings, asked = place.url(f"{place.embeddings.url}/v1"), place.url(place.llm.base_url, "api_key")
    text = _EXPERIMENT.format(embeddings=embeddings, llm=asked)
    experiment.write_text(text.replace("asked.jsonl", str(place.folder / "work" / "asked.jsonl")))
    place.command("run", experiment, "--data-dir", "data", code=None)
    ended = program("-c", _FAULT, cwd=place.folder / "work", environment={"PYTHONPATH": str(ROOT)})
    assert "RuntimeError" in ended.stderr, ended.stderr
    place.printed.append(ended.stdout.encode() + ended.stderr.encode())


def _serve(place: Place, *flags: str) -> None:
    command = [
        sys.executable,
        "-m",
        "branchrank.frontends.cli.main",
        "serve",
        "--port",
        "0",
        "--predictor",
        "hybrid",
    ]
    with subprocess.Popen([*command, *flags], stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        said = b""
        while b"serving" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        url = said.split()[-1].decode()
        token = {"Authorization": f"Bearer {place.secrets['BRANCHRANK_TOKEN']}"}
        with httpx2.Client(trust_env=False, headers=token, timeout=60) as client:
            for number in range(4):
                if number == 3:
                    place.embeddings.script += [lambda body: _refusal(place.embeddings)]
                answer = client.post(f"{url}/retrieve", json={"query": f"tea {number}"})
                assert answer.status_code == (500 if number == 3 else 200), answer.text
                place.printed.append(str(answer.headers).encode() + answer.content)
            for path in ("/health", "/openapi.json", "/nowhere"):
                place.printed.append(client.get(url + path).content)
        process.terminate()
        place.printed.append(said + process.stderr.read())


def _offer_tools(place: Place, *flags: str) -> None:
    command = [sys.executable, "-m", "branchrank.frontends.cli.main", "mcp", "--predictor", "local", *flags]
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    calls = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    for number, tool in enumerate(("hybrid_search", "vector_search"), start=3):
        asked = {"name": tool, "arguments": {"query": "green tea"}}
        calls.append({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": asked})
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    said = ""
    for call in calls:
        process.stdin.write(json.dumps(call) + "\n")
        process.stdin.flush()
        if "id" in call:
            said += process.stdout.readline()
    rest, errors = process.communicate(timeout=60)
    assert said.count('"result"') == 4, (said, errors)
    place.printed.append((said + rest + errors).encode())
