"""A tokenizer for loops that need one: a token a byte, and marks of a chat template. Needs transformers."""

from __future__ import annotations

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast


def byte_tokenizer(marks: tuple[str, ...], pad: str, chat_template: str) -> PreTrainedTokenizerFast:
    """``marks``: a token each, special where they look like ``<|...|>``. The end of a turn is ``<|im_end|>``."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE(vocab={letter: k for k, letter in enumerate(alphabet)}, merges=[]))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_tokens([AddedToken(mark, special=mark.startswith("<|"), normalized=False) for mark in marks])
    made = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|im_end|>", pad_token=pad)
    made.chat_template = chat_template
    return made
