"""A text that spells a control token, such as `</s>`, is read as these characters: nobody steers a model by a page."""

from __future__ import annotations

import re
from typing import Any

from tokenizers import Regex, Tokenizer
from tokenizers.pre_tokenizers import Sequence, Split


def read_as_text(tokenizer: Any) -> None:
    """Have a tokenizer see no control token in any text from now on; those that it adds by itself stay.

    Takes one of the `tokenizers` library, or of `transformers` with such a one inside; any other is left as it is but
    for the setting by which `transformers` splits what is spelled so.
    """
    inner = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if inner is not tokenizer:
        # Set before each call by `transformers`, from this.
        tokenizer.split_special_tokens = True
    if isinstance(inner, Tokenizer):
        _split(inner)


def _split(tokenizer: Tokenizer) -> None:
    tokenizer.encode_special_tokens = True
    added = tokenizer.get_added_tokens_decoder()
    spelled = {number: token.content for number, token in added.items() if token.special and len(token.content) > 1}
    # A unigram model has them among its words, too, and finds them there: what they begin with has to stand alone.
    found = [
        content
        for number, content in spelled.items()
        if number in tokenizer.encode(content, add_special_tokens=False).ids
    ]
    if not found:
        return
    beginnings = "|".join(f"{re.escape(content[0])}(?={re.escape(content[1:])})" for content in sorted(found))
    apart = Split(Regex(beginnings), "isolated")
    before = tokenizer.pre_tokenizer
    tokenizer.pre_tokenizer = apart if before is None else Sequence([before, apart])
