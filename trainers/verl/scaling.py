"""How much memory a run of the verl engine takes on each GPU, and how fast it could be: formulas, assumptions stated.

``docs/scaling.md`` explains them; its numbers come from here (a test compares). Nothing is measured: these are upper
bounds to choose a layout by, and the run's own ``perf/max_memory_allocated_gb`` and ``timing_s`` to correct it with.
"""

from __future__ import annotations

from dataclasses import dataclass

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Model:
    """What of a decoder-only transformer decides memory and speed. ``kv_width``: key/value heads times head size."""

    name: str
    parameters: float
    layers: int
    hidden: int
    kv_width: int
    vocabulary: int


#: from the configuration files of the Qwen2.5 models (Apache-2.0, 3B apart); parameters include embeddings
QWEN = {
    "0.5B": Model("Qwen2.5-0.5B", 0.494e9, 24, 896, 128, 151_936),
    "1.5B": Model("Qwen2.5-1.5B", 1.544e9, 28, 1536, 256, 151_936),
    "7B": Model("Qwen2.5-7B", 7.616e9, 28, 3584, 512, 152_064),
    "14B": Model("Qwen2.5-14B", 14.77e9, 48, 5120, 1024, 152_064),
    "32B": Model("Qwen2.5-32B", 32.76e9, 64, 5120, 1024, 152_064),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """A run's shape: ``gpus`` in all, ``tensor_parallel`` of the rollout, ``memory`` share given to the rollout.

    ``micro_tokens``: tokens of one forward and backward pass; ``reference``: a KL reference is kept; ``lora``: trained
    parameters under LoRA (0: full fine-tuning); ``offload``: parameters and optimiser wait in the host's memory.
    """

    gpus: int
    tensor_parallel: int = 1
    memory: float = 0.5
    micro_tokens: int = 16_384
    reference: bool = False
    lora: float = 0.0
    offload: bool = False
    checkpointing: bool = True


def training_bytes(model: Model, layout: Layout) -> dict[str, float]:
    """Bytes on each GPU while the policy is updated, by what they are for.

    FSDP2 shards float32 weights (4), gradients (4) and AdamW's two moments (8) over all GPUs: 16 bytes a parameter;
    under LoRA only the adapter has gradients and moments. The reference is another float32 copy, sharded likewise. One
    layer at a time is gathered in bfloat16, with its neighbour prefetched. Activations: with checkpointing one
    bfloat16 hidden state a layer and token, plus one layer's inside (about 34 hidden states); logits in float32, with
    their gradient and their softmax (12 bytes a token and word).
    """
    trained = layout.lora or model.parameters
    layer = model.parameters / model.layers
    inside = 34 if layout.checkpointing else 34 * model.layers
    kept = model.layers if layout.checkpointing else 0
    return {
        "weights": 4 * model.parameters / layout.gpus,
        "gradients and optimiser": 12 * trained / layout.gpus,
        "reference": 4 * model.parameters / layout.gpus if layout.reference and not layout.lora else 0.0,
        "gathered layers": 2 * 2 * layer,
        "activations": 2.0 * layout.micro_tokens * model.hidden * (kept + inside),
        "logits": 12.0 * layout.micro_tokens * model.vocabulary,
    }


def rollout_bytes(model: Model, layout: Layout, gpu: float) -> dict[str, float]:
    """Bytes on each GPU while episodes are played: vLLM's bfloat16 weights and what is left of its share for keys and
    values; plus the trainer's shards, unless they are offloaded."""
    weights = 2 * model.parameters / layout.tensor_parallel
    trained = layout.lora or model.parameters
    shards = (4 * model.parameters + 8 * trained) / layout.gpus
    return {
        "rollout weights": weights,
        "keys and values": max(0.0, layout.memory * gpu - weights),
        "trainer's shards": 0.0 if layout.offload else shards,
    }


def kv_bytes_per_token(model: Model, tensor_parallel: int = 1) -> float:
    """Bytes of keys and values of one token on one GPU, bfloat16: 2 x layers x kv_width x 2."""
    return 4.0 * model.layers * model.kv_width / tensor_parallel


def conversations(model: Model, layout: Layout, gpu: float, tokens: int) -> int:
    """How many conversations of ``tokens`` tokens all rollout servers hold at once."""
    room = rollout_bytes(model, layout, gpu)["keys and values"]
    per_server = int(room // (kv_bytes_per_token(model, layout.tensor_parallel) * tokens))
    return per_server * (layout.gpus // layout.tensor_parallel)


def fits(model: Model, layout: Layout, gpu: float, spare: float = 0.08) -> bool:
    """Does a run fit GPUs of ``gpu`` bytes, with a share ``spare`` left for what no formula sees?"""
    training = training_bytes(model, layout)
    playing = rollout_bytes(model, layout, gpu)
    room = gpu * (1 - spare)
    return sum(training.values()) <= room and sum(playing.values()) <= room and playing["keys and values"] > 0


@dataclass(frozen=True, slots=True)
class Load:
    """What a training step works on: ``episodes`` of ``turns`` turns; ``prompt`` tokens that come new each turn and
    ``response`` tokens that the policy draws; ``wait`` seconds of environment a turn; ``window``: every turn is a
    conversation of its own, as in the window layout (else one chat grows over the episode)."""

    episodes: int
    turns: int
    prompt: int
    response: int
    wait: float = 0.0
    window: bool = False

    @property
    def context(self) -> int:
        """Tokens of the longest conversation."""
        return (1 if self.window else self.turns) * (self.prompt + self.response)

    @property
    def tokens(self) -> int:
        """Tokens of the step's rows."""
        return self.episodes * self.turns * (self.prompt + self.response)

    @property
    def drawn(self) -> int:
        """Sampled tokens."""
        return self.episodes * self.turns * self.response


@dataclass(frozen=True, slots=True)
class Speed:
    """Assumptions about a GPU. ``flops`` dense bfloat16 peak; ``bandwidth`` bytes/s of its memory; ``mfu`` share of the
    peak that the update reaches; ``mbu`` share of the bandwidth that decoding reaches; ``sync`` bytes/s at which new
    weights reach a rollout server."""

    flops: float = 989e12
    bandwidth: float = 3.35e12
    mfu: float = 0.35
    mbu: float = 0.5
    sync: float = 20e9


def step_seconds(model: Model, layout: Layout, load: Load, speed: Speed, gpu: float) -> dict[str, float]:
    """Seconds of one training step, by part.

    Update: 6 x parameters x tokens of arithmetic (8 with checkpointing), old log-probabilities 2 more. Rollout: every
    decoding step of a server reads its weights once and each conversation's keys and values; all conversations of a
    server advance together; turns wait for the environment. Prefill is 2 x parameters x tokens, each token once.
    """
    work = (8 if layout.checkpointing else 6) + 2 + (2 if layout.reference else 0)
    update = work * model.parameters * load.tokens / (layout.gpus * speed.flops * speed.mfu)
    servers = layout.gpus // layout.tensor_parallel
    held = max(1, conversations(model, layout, gpu, load.context))
    waves = -(-load.episodes // held)
    together = min(load.episodes, held) / servers
    read = 2 * model.parameters / layout.tensor_parallel
    read += together * kv_bytes_per_token(model, layout.tensor_parallel) * load.context / 2  # half full on average
    decode = waves * load.turns * load.response * read / (speed.bandwidth * speed.mbu)
    prefill = 2 * model.parameters * load.tokens / (layout.gpus * speed.flops * speed.mfu)
    return {
        "decode": decode,
        "prefill": prefill,
        "environment": waves * load.turns * load.wait,
        "update": update,
        "weights to the servers": 2 * model.parameters / layout.tensor_parallel / speed.sync,
    }


def rates(seconds: dict[str, float], load: Load) -> tuple[float, float]:
    """(tokens a second over the whole step, steps an hour)."""
    total = sum(seconds.values())
    return load.tokens / total, 3600 / total


#: recipe -> (model, layout, load) of the tables; loads are assumptions: 1000 prompt tokens and 100 drawn ones a turn
CASES: dict[str, tuple[Model, Layout, Load]] = {
    "scale/1gpu-0.5b": (QWEN["0.5B"], Layout(1, 1, 0.5, 16_384, reference=True), Load(128, 50, 1000, 100, 0.005, True)),
    "scale/8gpu-7b": (QWEN["7B"], Layout(8, 2, 0.5, 8_192, reference=True), Load(128, 50, 1000, 100, 0.005, True)),
    "scale/64gpu-32b": (QWEN["32B"], Layout(64, 4, 0.5, 8_192, reference=True), Load(512, 50, 1000, 100, 0.005, True)),
}
GPU = 80 * GIB


def tables() -> str:
    """The tables of ``docs/scaling.md``, in Markdown: ``python -m agentgym.trainers.verl.scaling``."""
    update = {name: training_bytes(model, layout) for name, (model, layout, _) in CASES.items()}
    playing = {name: rollout_bytes(model, layout, GPU) for name, (model, layout, _) in CASES.items()}
    seconds = {name: step_seconds(*CASES[name], Speed(), GPU) for name in CASES}
    parts = [
        _table("GiB on each GPU, update", update, GIB),
        _table("GiB on each GPU, rollout", playing, GIB),
        _table("seconds of a step", seconds, 1.0),
        _rates(seconds),
    ]
    return "\n\n".join(parts) + "\n"


def _table(title: str, columns: dict[str, dict[str, float]], unit: float) -> str:
    rows = list(next(iter(columns.values())))
    lines = [f"| {title} | {' | '.join(f'`{name}`' for name in columns)} |", "|---" + "|---:" * len(columns) + "|"]
    lines += [f"| {row} | {' | '.join(f'{found[row] / unit:.1f}' for found in columns.values())} |" for row in rows]
    sums = " | ".join(f"{sum(found.values()) / unit:.1f}" for found in columns.values())
    return "\n".join([*lines, f"| sum | {sums} |"])


def _rates(seconds: dict[str, dict[str, float]]) -> str:
    found = {name: rates(seconds[name], CASES[name][2]) for name in CASES}
    lines = [f"| rate | {' | '.join(f'`{name}`' for name in CASES)} |", "|---" + "|---:" * len(CASES) + "|"]
    lines.append(f"| tokens/s | {' | '.join(f'{tokens:.0f}' for tokens, _ in found.values())} |")
    lines.append(f"| steps/h | {' | '.join(f'{steps:.0f}' for _, steps in found.values())} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(tables(), end="")
