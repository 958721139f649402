"""Texts as a model in ONNX reads them: what comes before them, their windows and their tokens. Needs no onnxruntime."""

from __future__ import annotations

from rag_assets.embedding.profiles import EmbeddingProfile
from rag_assets.embedding.providers.families import prefixes_of, shipped_prefixes
from rag_assets.embedding.providers.onnx_files import ModelFiles
from rag_assets.embedding.providers.windows import TokenWindows


class ModelTexts:
    """The texts of one profile.

    Attributes:
        tokenizer: the model's; neither truncates nor pads.
        prefixes: of queries and documents.
        windows: cuts texts into what the model, or the profile, reads at once.
    """

    def __init__(self, profile: EmbeddingProfile, files: ModelFiles) -> None:
        self.tokenizer = files.tokenizer()
        self.prefixes = prefixes_of(profile, shipped_prefixes(files.prompts))
        limits = [limit for limit in (files.window, profile.options.max_input_tokens) if limit is not None]
        self.windows = TokenWindows(self.tokenizer, min(limits, default=None))

    def document_tokens(self, text: str) -> int:
        """Tokens that the model reads of a document, in all its windows."""
        return sum(window.size for window in self.windows.cut(text, self.prefixes.document))
