"""Tiny random ColBERT checkpoints in Stanford's and in PyLate's format."""

from __future__ import annotations

import json
import string
from pathlib import Path

import pytest
from support.tokenizer import save_tokenizer

WORDS = ["how", "to", "configure", "a", "route", "section", "text", "[unused0]", "[unused1]", ".", ","]
MARKERS = {"stanford": ("[unused0]", "[unused1]"), "pylate": ("[Q] ", "[D] ")}
QUERY_LENGTH, DOCUMENT_LENGTH, DIMENSION = 12, 20, 8


def save_colbert(folder: Path, kind: str) -> Path:
    """A BERT of two random layers with a projection, laid out as ``kind``: stanford or pylate."""
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file
    from transformers import AutoTokenizer, BertConfig, BertModel

    size = save_tokenizer(folder, WORDS)
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = BertConfig(vocab_size=size + 2, max_position_embeddings=64, initializer_range=0.5, **shape)
    BertModel(config).save_pretrained(folder)
    weights = BertModel.from_pretrained(folder).state_dict()
    projection = {"linear.weight": torch.randn(DIMENSION, 32)}
    metadata = {"format": "pt"}
    if kind == "stanford":
        named = {f"bert.{name}": weight.contiguous() for name, weight in weights.items()}
        save_file(named | projection, folder / "model.safetensors", metadata=metadata)
        change(folder / "config.json", architectures=["HF_ColBERT"])
        change(
            folder / "artifact.metadata",
            query_token_id="[unused0]",
            doc_token_id="[unused1]",
            query_maxlen=QUERY_LENGTH,
            doc_maxlen=DOCUMENT_LENGTH,
            attend_to_mask_tokens=False,
        )
        return folder
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens(list(MARKERS["pylate"]))
    tokenizer.save_pretrained(folder)
    dense = folder / "1_Dense"
    dense.mkdir()
    save_file(projection, dense / "model.safetensors", metadata=metadata)
    identity = "torch.nn.modules.linear.Identity"
    change(
        dense / "config.json",
        in_features=32,
        out_features=DIMENSION,
        bias=False,
        activation_function=identity,
    )
    types = {"": "sentence_transformers.models.Transformer", "1_Dense": "pylate.models.Dense.Dense"}
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": types[path]}
        for number, path in enumerate(types)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    change(folder / "sentence_bert_config.json", max_seq_length=DOCUMENT_LENGTH - 1, do_lower_case=False)
    change(
        folder / "config_sentence_transformers.json",
        prompts={},
        default_prompt_name=None,
        similarity_fn_name="MaxSim",
        query_prefix="[Q] ",
        document_prefix="[D] ",
        query_length=QUERY_LENGTH,
        document_length=DOCUMENT_LENGTH,
        attend_to_expansion_tokens=False,
        skiplist_words=list(string.punctuation),
    )
    return folder


def change(path: Path, **changes: object) -> None:
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(content | changes))
