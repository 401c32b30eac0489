import json
import re
import shutil
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
from support.colbert_checkpoint import save_colbert
from support.commands import invoke
from support.loopback import Reply, Request, answering
from support.tokenizer import save_tokenizer
from support.worlds import write_pages

from branchrank.core.errors import ModelError, UsageError
from branchrank.core.settings import IndexSettings
from branchrank.index.embedders import open_embedder
from branchrank.index.embedders.protocol import conventional_prefixes
from branchrank.index.embedders.sentence_transformers import SentenceTransformersEmbedder
from branchrank.workspace import Workspace

WORDS = ["represent", "this", "query", "for", "searching", "relevant", "code", ":"]
WORDS += ["how", "to", "configure", "a", "route", "section", "text"]
TEXTS = ["a route", "how to configure a route " * 8, "text", ""]
CODERANK_PREFIX = "Represent this query for searching relevant code: "


def make_nomic_bert(folder: Path) -> Path:
    """Save a NomicBert of two tiny layers as sentence-transformers lays a model out."""
    torch = pytest.importorskip("torch")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import NomicBertConfig, NomicBertModel

    plain = folder / "plain"
    vocabulary = save_tokenizer(plain, WORDS)
    torch.manual_seed(0)
    config = NomicBertConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    NomicBertModel(config).save_pretrained(plain)
    transformer = Transformer(str(plain))
    saved = folder / "CodeRankEmbed"
    pooling = Pooling(32, pooling_mode="cls")
    SentenceTransformer(modules=[transformer, pooling], device="cpu").save(str(saved))
    shutil.rmtree(plain)
    return saved


@pytest.fixture(scope="module")
def nomic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_nomic_bert(tmp_path_factory.mktemp("nomic"))


@pytest.fixture
def copy(nomic: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(nomic, tmp_path / "CodeRankEmbed"))


def change(path: Path, **changes: object) -> None:
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(content | changes))


def test_token_vectors_are_those_of_the_last_layer(nomic: Path) -> None:
    from sentence_transformers import SentenceTransformer

    embedder = SentenceTransformersEmbedder(IndexSettings(embedder=str(nomic)))
    documents = embedder.embed_documents_and_tokens(TEXTS).tokens
    model = SentenceTransformer(str(nomic), device="cpu")
    for text, rows in zip(TEXTS, documents, strict=True):
        expected = model.encode([text], output_value="token_embeddings", show_progress_bar=False)[0].numpy()
        assert np.allclose(rows, expected / np.linalg.norm(expected, axis=1, keepdims=True), atol=1e-6)
    assert [len(rows) for rows in documents] == [4, 42, 3, 2]


def test_a_vector_computed_with_its_tokens_is_the_same_to_the_bit(nomic: Path) -> None:
    embedder = SentenceTransformersEmbedder(IndexSettings(embedder=str(nomic)))
    together = embedder.embed_documents_and_tokens(TEXTS).vectors
    assert together.tobytes() == embedder.embed_documents(TEXTS).tobytes()


def test_a_querys_tokens_leave_out_the_prefix_and_special_tokens(nomic: Path) -> None:
    embedder = SentenceTransformersEmbedder(IndexSettings(embedder=str(nomic)))
    (with_prefix,) = embedder.embed_documents_and_tokens([f"{CODERANK_PREFIX}a route"]).tokens
    assert np.array_equal(embedder.embed_query_and_tokens("a route").tokens, with_prefix[-3:-1])
    assert embedder.embed_query_and_tokens("").tokens.shape == (0, 32)


def test_remote_code_of_a_built_in_architecture_is_ignored(nomic: Path, copy: Path) -> None:
    reference = {"AutoConfig": "canary.Config", "AutoModel": "canary.Model"}
    change(copy / "config.json", auto_map=reference)
    marker = copy / "ran"
    (copy / "canary.py").write_text(f"open({str(marker)!r}, 'w')\n")
    rows = SentenceTransformersEmbedder(IndexSettings(embedder=str(copy))).embed_documents(TEXTS)
    assert np.array_equal(
        rows, SentenceTransformersEmbedder(IndexSettings(embedder=str(nomic))).embed_documents(TEXTS)
    )
    assert not marker.exists()


def test_a_models_own_prompts_come_before_the_published_ones(copy: Path) -> None:
    prompts = {"query": "route ", "passage": "text "}
    change(copy / "config_sentence_transformers.json", prompts=prompts, default_prompt_name="query")
    embedder = SentenceTransformersEmbedder(IndexSettings(embedder=str(copy)))
    assert (embedder.identity.query_prefix, embedder.identity.document_prefix) == ("route ", "text ")
    plain = embedder.embed_documents(["a route"])[0]
    change(copy / "config_sentence_transformers.json", prompts={}, default_prompt_name=None)
    (expected,) = SentenceTransformersEmbedder(IndexSettings(embedder=str(copy))).embed_documents(
        ["text a route"]
    )
    assert np.array_equal(plain, expected)


def test_the_identity_follows_the_weights(nomic: Path, copy: Path) -> None:
    from safetensors.numpy import load_file, save_file

    weights = load_file(copy / "model.safetensors")
    first = min(weights)
    weights[first] = weights[first] + 1
    save_file(weights, copy / "model.safetensors", metadata={"format": "pt"})
    changed = SentenceTransformersEmbedder(IndexSettings(embedder=str(copy))).identity.weights_digest
    assert changed != SentenceTransformersEmbedder(IndexSettings(embedder=str(nomic))).identity.weights_digest


def pickled_dense_module(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    modules.append({"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"})
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "2_Dense").mkdir()
    (folder / "2_Dense" / "pytorch_model.bin").write_bytes(b"\x80\x04cos\nsystem\n.")


def module_of_its_own(folder: Path) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    modules[0]["type"] = "subprocess.Popen"
    (folder / "modules.json").write_text(json.dumps(modules))


def torn_weights(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])


OWN_CODE = {"model_type": "mystery", "auto_map": {"AutoModel": "mystery.Model"}}
UNSAFE: dict[str, tuple[Callable[[Path], object], str]] = {
    "pickled": (lambda model: (model / "model.safetensors").rename(model / "pytorch_model.bin"), "pickled"),
    "pickled module": (pickled_dense_module, "pickled"),
    "module of its own": (module_of_its_own, "needs the code of"),
    "architecture of its own": (
        lambda model: change(model / "config.json", **OWN_CODE),
        "needs its own code",
    ),
    "broken config": (lambda model: (model / "config.json").write_text("{"), "can't be read"),
    "torn weights": (torn_weights, "can't be loaded"),
    "no model": (lambda model: [*map(Path.unlink, model.glob("*.json"))], "does not contain a sentence-tr"),
}


@pytest.mark.parametrize("kind", UNSAFE)
def test_what_can_not_be_loaded_safely_is_a_model_error(copy: Path, kind: str) -> None:
    spoil, match = UNSAFE[kind]
    spoil(copy)
    with pytest.raises(ModelError, match=match) as caught:
        open_embedder(IndexSettings(embedder=str(copy)))
    assert "--embedder" in caught.value.remedy


@pytest.mark.parametrize("name", ["./absent", "/absent/model", "~/absent", "a/b/c"])
def test_a_missing_folder_is_not_looked_for_on_the_hub(name: str) -> None:
    pytest.importorskip("torch")
    with pytest.raises(ModelError, match="no model folder"):
        open_embedder(IndexSettings(embedder=name))


SHA = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """A model hub on a loopback port that serves one repository of files, or nothing at all."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.paths: list[str] = []
        self.url = ""

    def reply(self, request: Request) -> Reply:
        self.paths.append(request.path)
        name = unquote(request.path.partition("/resolve/")[2].partition("/")[2])
        headers = {"X-Repo-Commit": SHA, "ETag": f'"{name}"'}
        if not self.files:
            return Reply({}, 404, {"X-Error-Code": "RepoNotFound"})
        if "/tree/" in request.path:
            sizes = {name: len(content) for name, content in self.files.items()}
            listed = [{"type": "file", "path": each, "size": sizes[each], "oid": "0" * 40} for each in sizes]
            return Reply(listed, 200, headers)
        if request.path.startswith("/api/models/tiny/model"):
            siblings = [{"rfilename": name} for name in self.files]
            return Reply({"id": "tiny/model", "sha": SHA, "siblings": siblings}, 200, headers)
        if name in self.files:
            return Reply(self.files[name], 200, headers)
        return Reply({}, 404, headers)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    running = Hub()
    with answering(running.reply) as running.url:
        use_hub(monkeypatch, running.url, tmp_path / "hub")
        yield running


def use_hub(monkeypatch: pytest.MonkeyPatch, url: str, cache: Path) -> None:
    from huggingface_hub import constants, hf_api

    for module in (constants, hf_api):
        monkeypatch.setattr(module, "ENDPOINT", url, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}"
    )


def test_a_model_of_the_hub_is_announced_fetched_once_and_then_local(nomic: Path, hub: Hub) -> None:
    hub.files = {
        path.relative_to(nomic).as_posix(): path.read_bytes() for path in nomic.rglob("*") if path.is_file()
    }
    hub.files["modeling_canary.py"] = b"raise SystemExit"
    hub.files["pytorch_model.bin"] = b"pickle"
    notices: list[str] = []
    settings = IndexSettings(embedder="tiny/model")
    embedder = open_embedder(settings, notify=notices.append)
    (notice,) = notices
    assert "tiny/model" in notice
    assert hub.url in notice
    assert embedder.identity.revision == SHA
    assert not any(path.endswith((".py", ".bin")) for path in hub.paths)
    hub.paths.clear()
    again = open_embedder(settings, notify=notices.append)
    assert hub.paths == []
    assert len(notices) == 1
    assert again.identity == embedder.identity
    assert np.array_equal(again.embed_query("a route"), embedder.embed_query("a route"))


def test_a_colbert_checkpoint_of_the_hub_comes_with_its_markers(hub: Hub, tmp_path: Path) -> None:
    folder = save_colbert(tmp_path / "stanford", "stanford")
    hub.files = {path.name: path.read_bytes() for path in folder.iterdir()}
    identity = open_embedder(IndexSettings(embedder="tiny/model")).identity
    assert (identity.name, identity.revision) == ("colbert", SHA)
    assert identity.query_prefix.strip() == "[unused0]"


def test_pickled_weights_are_not_even_fetched(hub: Hub) -> None:
    pytest.importorskip("torch")
    hub.files = {"config.json": b"{}", "pytorch_model.bin": b"pickle"}
    with pytest.raises(ModelError, match="no safetensors"):
        open_embedder(IndexSettings(embedder="tiny/model"))
    assert not any("resolve" in path for path in hub.paths)


def test_a_model_that_the_hub_lacks_is_a_model_error(hub: Hub) -> None:
    pytest.importorskip("torch")
    with pytest.raises(ModelError, match="'tiny/absent'"):
        open_embedder(IndexSettings(embedder="tiny/absent"))


def test_a_hub_that_does_not_respond_is_tried_once_before_documents_are_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr("branchrank.index.embedders.hub.TIMEOUT", 0.2)
    monkeypatch.setattr("branchrank.index.index_build.read_contents", None)
    write_pages(tmp_path / "docs")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        use_hub(monkeypatch, f"http://127.0.0.1:{listener.getsockname()[1]}", tmp_path)
        done = invoke("index", tmp_path / "docs", "--data-dir", tmp_path / "data")
        assert done.exit_code == ModelError.exit_code, done.output
        assert re.search("can't be downloaded.*timed out\n  fix: .*--embedder all-MiniLM-L6-v2", done.stderr)
        listener.setblocking(False)
        listener.accept()[0].close()
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize(
    ("model", "query", "document"),
    [
        ("nomic-ai/CodeRankEmbed", CODERANK_PREFIX, ""),
        ("nomic-embed-text:latest", "search_query: ", "search_document: "),
        ("intfloat/multilingual-e5-small", "query: ", "passage: "),
        ("BAAI/bge-small-en-v1.5", "Represent this sentence for searching relevant passages: ", ""),
        ("text-embedding-3-small", "", ""),
        ("my-e5-small-finetune", "", ""),
    ],
)
def test_published_prefixes(model: str, query: str, document: str) -> None:
    assert conventional_prefixes(model) == (query, document)


@pytest.mark.parametrize("name", ["fakee", "ollamaa", "all-MiniLM-L6-v3", "CodeRankEmbed"])
def test_a_misspelled_name_gets_a_suggestion_without_contacting_the_hub(
    hub: Hub, tmp_path: Path, name: str
) -> None:
    known = {"fakee": "fake", "ollamaa": "ollama", "all-MiniLM-L6-v3": "all-MiniLM-L6-v2"}
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text("# Tea\n\nBrew it.\n")
    with pytest.raises(UsageError) as error:
        Workspace.build(tmp_path / "docs", tmp_path / "data", embedder=name)
    assert f"did you mean `{known.get(name, 'nomic-ai/CodeRankEmbed')}`?" in error.value.message
    assert hub.paths == []
    assert not (tmp_path / "data" / "branchrank.toml").exists()


def test_without_pytorch_the_install_command_is_shown_before_a_download(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    write_pages(tmp_path / "docs")
    done = invoke(
        "index", tmp_path / "docs", "--data-dir", tmp_path / "data", "--embedder", "nomic-ai/CodeRankEmbed"
    )
    assert done.exit_code == 5
    assert 'pip install "torch' in done.stderr
    assert hub.paths == []
