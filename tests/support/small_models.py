"""Models with random weights, small enough to be made by a test that has torch."""

from __future__ import annotations

from pathlib import Path

WORDS = ["pump", "valve", "warranty", "years", "five", "how", "long", "is", "the", "door", "week"]


def small_cross_encoder(folder: Path, labels: int = 1, activation: str | None = None) -> Path:
    """A BERT of 2 small layers, as sentence-transformers saves cross-encoders."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    torch.manual_seed(labels)
    folder.mkdir()
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]))
    BertTokenizerFast(str(vocabulary), model_max_length=64).save_pretrained(folder)
    config = BertConfig(
        vocab_size=16, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=64, num_labels=labels, initializer_range=0.5,
    )  # fmt: skip
    if activation:
        config.sentence_transformers = {"activation_fn": activation}
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder
