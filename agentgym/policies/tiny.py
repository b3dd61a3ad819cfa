"""Tiny language models from scratch: a Llama of 0.1-3 M parameters and a tokenizer made from an environment's own text.

The word tokenizer is lossless: a token is a word, a number or a mark with its leading space (" desk", " 12", "."),
and decoding is concatenation. A word it has not seen is spelled with shorter tokens, at worst letter by letter
(:func:`spelled_words` counts those); only a word with a character outside printable ASCII and the given texts is
``<unk>``, and :class:`~agentgym.policies.rendering.ChatRenderer` counts every one of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from agentgym.errors import ConfigError
from agentgym.policies.rendering import LOCAL_MARK
from agentgym.seeding import derive_seed, python_rng

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

    from agentgym.config.recipe import TinyModelSection
    from agentgym.environment import Environment
    from agentgym.types import Task, TaskSet

PAD, UNKNOWN, SYSTEM, USER, ASSISTANT, END = "<pad>", "<unk>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"
SPECIAL = (PAD, UNKNOWN, SYSTEM, USER, ASSISTANT, END)
#: a word, a number or one mark, each with at most one leading space; or one whitespace character
WORD = r" ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]|\s"
CHARACTERS = ["\n", *map(chr, range(32, 127))]
CHAT_TEMPLATE = LOCAL_MARK + (
    "{%- for message in messages -%}"
    "{%- if message['role'] == 'assistant' -%}<|assistant|>{{- message['content'] -}}<|end|>"
    "{%- elif message['role'] == 'system' -%}<|system|>{{- message['content'] -}}"
    "{%- else -%}<|user|>{{- message['content'] -}}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"
)


def make_tiny(
    folder: str | Path,
    texts: Iterable[str],
    config: TinyModelSection,
    seed: int,
    tags: Sequence[str] = ("action", "think"),
) -> Path:
    """Write a randomly initialised model and its tokenizer to ``folder``, loadable by the transformers Auto classes.

    ``texts``: what the environment says and which actions exist (:func:`environment_texts`); ``tags``: response tags
    that become single tokens. The weights depend on ``seed`` only; torch's global generator is left as it was.
    """
    from agentgym.policies.causal import quiet

    tokenizer = make_tokenizer(texts, config, tags)
    model = make_model(tokenizer, config, seed)
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    tokenizer.save_pretrained(path)
    with quiet():
        model.save_pretrained(path, safe_serialization=True)
    return path


def make_tokenizer(
    texts: Iterable[str], config: TinyModelSection, tags: Sequence[str] = ("action", "think")
) -> PreTrainedTokenizerFast:
    """The tokenizer alone. Raises ConfigError where ``config.vocab_size`` has no room for characters and words."""
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    tag_tokens = [mark for tag in tags if tag for mark in (f"<{tag}>", f"</{tag}>")]
    unique = list(dict.fromkeys(_without(texts, tag_tokens)))
    build = _word_backend if config.tokenizer == "word" else _bpe_backend
    backend = build(unique, config.vocab_size - len(SPECIAL) - len(tag_tokens))
    backend.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in tag_tokens])
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=backend,
        pad_token=PAD,
        unk_token=UNKNOWN,
        eos_token=END,
        additional_special_tokens=[SYSTEM, USER, ASSISTANT],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=config.context,
    )


def _without(texts: Iterable[str], marks: Sequence[str]) -> Iterator[str]:
    """The texts, cut at every mark (marks are tokens of their own)."""
    cut = re.compile("|".join(map(re.escape, [*SPECIAL, *marks])))
    for text in texts:
        yield from (part for part in cut.split(text) if part)


def _with_specials(backend: Any) -> Any:
    from tokenizers import AddedToken

    backend.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in SPECIAL])
    return backend


def _word_backend(texts: Sequence[str], room: int) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    split = pre_tokenizers.Split(Regex(WORD), behavior="isolated")
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(word for word, _ in split.pre_tokenize_str(text))
    characters = sorted({*CHARACTERS, *(char for word in counts for char in word)})
    words = [word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if len(word) > 1]
    if room < len(characters) + min(len(words), 1):
        needed = len(characters) + len(words) + len(SPECIAL)
        raise ConfigError(f"model.tiny.vocab_size leaves {room} tokens; characters and words need {needed}. Raise it.")
    tokens = [*SPECIAL, *characters, *words[: room - len(characters)]]
    vocab = {token: index for index, token in enumerate(tokens)}
    # greedy longest match inside one pre-token: a known word is one token, an unknown one is spelled
    backend = Tokenizer(models.WordPiece(vocab, unk_token=UNKNOWN, continuing_subword_prefix=""))
    backend.pre_tokenizer = split
    backend.decoder = decoders.Fuse()
    return _with_specials(backend)


def _bpe_backend(texts: Sequence[str], room: int) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    alphabet = pre_tokenizers.ByteLevel.alphabet()
    if room < len(alphabet):
        raise ConfigError(f"model.tiny.vocab_size leaves {room} tokens; bpe needs {len(alphabet)} for bytes. Raise it.")
    backend = Tokenizer(models.BPE(unk_token=UNKNOWN))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=room + len(SPECIAL),
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(alphabet),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    return _with_specials(backend)


def make_model(tokenizer: PreTrainedTokenizerFast, config: TinyModelSection, seed: int) -> LlamaForCausalLM:
    """A Llama of ``config``'s size with one embedding row per token, initialised from ``seed`` on the CPU, float32."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    size = config.hidden_size
    end = tokenizer.convert_tokens_to_ids(END)
    shape = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=size,
        intermediate_size=config.intermediate_size or 8 * round(size * 8 / 3 / 8),
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.heads,
        max_position_embeddings=config.context,
        tie_word_embeddings=config.tie_embeddings,
        initializer_range=config.init_std,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(derive_seed("tiny-model", seed))
        model = LlamaForCausalLM(shape)
    generation = model.generation_config
    if generation is not None:
        generation.eos_token_id, generation.pad_token_id = end, tokenizer.pad_token_id
    return model


def spelled_words(tokenizer: Any, texts: Iterable[str]) -> Counter[str]:
    """Words of ``texts`` that the word tokenizer does not hold whole, with their counts (empty: all are known)."""
    split = tokenizer.backend_tokenizer.pre_tokenizer
    vocab = tokenizer.get_vocab()
    missing: Counter[str] = Counter()
    for text in texts:
        missing.update(word for word, _ in split.pre_tokenize_str(text) if word not in vocab)
    return missing


def environment_texts(
    env: Environment,
    tasks: TaskSet,
    *seed: int | str,
    episodes: int = 200,
    max_turns: int | None = None,
    shown: Callable[[str], str] = str,
) -> list[str]:
    """What an environment says: distinct observations, as ``shown`` in prompts, and actions, from plays of ``tasks``.

    At most ``episodes`` tasks, drawn by ``seed``, are played for up to ``max_turns`` (None: the environment's own).
    Plays mix the expert (where there is one) with random admissible actions, half and half.
    """
    seen: dict[str, None] = {}
    order = python_rng(*seed, "texts").sample(range(len(tasks)), min(episodes, len(tasks)))
    for index in order:
        for text in _play(env, tasks[index], python_rng(*seed, "play", index), max_turns or env.spec.max_turns, shown):
            seen.setdefault(text)
    return list(seen)


def _play(env: Environment, task: Task, rng: Random, turns: int, shown: Callable[[str], str]) -> Iterator[str]:
    """Observations and actions of one play, mixing expert and random actions."""
    observation = env.reset(task)
    for _ in range(turns):
        yield shown(observation.text)
        choices = list(observation.admissible or ())
        yield from choices
        expert = env.expert()
        if expert is not None:
            yield expert
        action = rng.choice(choices) if choices and (expert is None or rng.random() < 0.5) else expert
        if action is None:
            return
        step = env.step(action)
        observation = step.observation
        if step.terminated:
            break
    yield shown(observation.text)
