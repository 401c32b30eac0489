"""Random checkpoints in the published format of CodeRankEmbed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from support.tokenizer import SPECIAL, save_tokenizer

WORDS = ["represent", "this", "query", "for", "searching", "relevant", "code", ":"]
WORDS += ["how", "to", "configure", "a", "route", "section", "text", "tea"]
PREFIX = "Represent this query for searching relevant code: "

#: ``config.json`` of nomic-ai/CodeRankEmbed, small, and with other values than transformers' defaults.
PUBLISHED: dict[str, Any] = {
    "activation_function": "swiglu",
    "architectures": ["NomicBertModel"],
    "attn_pdrop": 0.0,
    "auto_map": {
        "AutoConfig": "nomic-ai/nomic-bert-2048--configuration_hf_nomic_bert.NomicBertConfig",
        "AutoModel": "nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertModel",
    },
    "bos_token_id": None,
    "causal": False,
    "dense_seq_output": True,
    "embd_pdrop": 0.0,
    "eos_token_id": None,
    "fused_bias_fc": True,
    "fused_dropout_add_ln": True,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-3,
    "max_trained_positions": 64,
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "model_type": "nomic_bert",
    "n_embd": 48,
    "n_head": 4,
    "n_inner": 200,
    "n_layer": 3,
    "n_positions": 96,
    "pad_vocab_size_multiple": 64,
    "parallel_block": False,
    "parallel_block_tied_norm": False,
    "prenorm": False,
    "qkv_proj_bias": False,
    "reorder_and_upcast_attn": False,
    "resid_pdrop": 0.0,
    "rotary_emb_base": 37,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": None,
    "scale_attn_by_inverse_layer_idx": False,
    "scale_attn_weights": True,
    "summary_activation": None,
    "summary_first_dropout": 0.0,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "torch_dtype": "float32",
    "transformers_version": "4.44.0",
    "type_vocab_size": 2,
    "use_cache": True,
    "use_flash_attn": True,
    "use_rms_norm": False,
    "use_xentropy": True,
    "vocab_size": len(SPECIAL) + len(WORDS),
}
#: What the published model has instead: 137 million parameters.
FULL_SIZE: dict[str, Any] = {
    "layer_norm_epsilon": 1e-12,
    "max_trained_positions": 2048,
    "n_embd": 768,
    "n_head": 12,
    "n_inner": 3072,
    "n_layer": 12,
    "n_positions": 8192,
    "rotary_emb_base": 1000,
    "vocab_size": 30522,
}
Weights = dict[str, NDArray[np.float32]]


def published_weights(config: dict[str, Any] = PUBLISHED, deviation: float = 0.2) -> Weights:
    """Random weights under the names of the published checkpoints."""
    random = np.random.default_rng(5)
    size = config["n_embd"]
    # As the published code rounds them up.
    inner, vocabulary = rounded(config["n_inner"], 256), rounded(config["vocab_size"], 64)

    def matrix(*shape: int) -> NDArray[np.float32]:
        return deviation * random.standard_normal(shape, dtype=np.float32)

    def norm(name: str) -> Weights:
        return {f"{name}.weight": 1 + matrix(size), f"{name}.bias": matrix(size)}

    weights = {
        "embeddings.word_embeddings.weight": matrix(vocabulary, size),
        "embeddings.token_type_embeddings.weight": matrix(2, size),
        **norm("emb_ln"),
    }
    for n in range(config["n_layer"]):
        layer = f"encoder.layers.{n}"
        weights |= {
            f"{layer}.attn.Wqkv.weight": matrix(3 * size, size),
            f"{layer}.attn.out_proj.weight": matrix(size, size),
            f"{layer}.mlp.fc11.weight": matrix(inner, size),
            f"{layer}.mlp.fc12.weight": matrix(inner, size),
            f"{layer}.mlp.fc2.weight": matrix(size, inner),
            **norm(f"{layer}.norm1"),
            **norm(f"{layer}.norm2"),
        }
    return weights


def save_weights(weights: Weights, folder: Path) -> None:
    """Write ``model.safetensors``."""
    from safetensors.numpy import save_file

    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def rounded(size: int, multiple: int) -> int:
    """``size`` rounded up to a multiple."""
    return -(-size // multiple) * multiple


def write_checkpoint(
    folder: Path,
    config: dict[str, Any] = PUBLISHED,
    pooling: str = "cls",
    *,
    tokenizer: Callable[[Path], object] = lambda folder: save_tokenizer(folder, WORDS),
    max_tokens: int = 40,
    deviation: float = 0.2,
) -> Path:
    """The folder of a model as the hub has it; ``tokenizer`` writes the files of its tokenizer."""
    folder.mkdir(parents=True)
    tokenizer(folder)
    weights = published_weights(config, deviation)
    save_weights(weights, folder)
    files: dict[str, Any] = {
        "config.json": config,
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
        ],
        "1_Pooling/config.json": {
            "word_embedding_dimension": config["n_embd"],
            "pooling_mode_cls_token": pooling == "cls",
            "pooling_mode_mean_tokens": pooling == "mean",
            "pooling_mode_max_tokens": False,
            "pooling_mode_mean_sqrt_len_tokens": False,
            "pooling_mode_weightedmean_tokens": False,
            "pooling_mode_lasttoken": False,
            "include_prompt": True,
        },
        "sentence_bert_config.json": {"max_seq_length": max_tokens, "do_lower_case": False},
        "config_sentence_transformers.json": {"prompts": {"query": PREFIX}, "default_prompt_name": None},
    }
    (folder / "1_Pooling").mkdir()
    (folder / "2_Normalize").mkdir()
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder
