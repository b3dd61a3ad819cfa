"""Policies by name: model folders, endpoints, and scripted ones. Importing this package imports no torch."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentgym.errors import AgentGymError, ConfigError, MissingDependency, failed_code, nearest, unknown
from agentgym.policy import Policy

#: policies without a model, by name; ``register_policy`` adds to them
_NAMED: dict[str, str | Callable[..., Policy]] = {
    "random": "agentgym.policies.scripted:RandomPolicy",
    "expert": "agentgym.policies.scripted:ExpertPolicy",
    "noop": "agentgym.policies.scripted:NoopPolicy",
    "scripted": "agentgym.policies.scripted:ScriptedPolicy",
}


def register_policy(name: str, target: str | Callable[..., Policy]) -> None:
    """Make ``name`` known to :func:`load_policy` for this process; ``target``: a factory, or ``module:Factory``."""
    _NAMED[name] = target


def policy_names() -> list[str]:
    """The names :func:`load_policy` knows, sorted."""
    return sorted(_NAMED)


def load_policy(spec: str | Path, **options: Any) -> Policy:
    """A policy from what a user types.

    ``spec``: a name (``random``, ``expert``, ``noop``, ...), ``module:Factory``, the folder or hub name of a model,
    or an OpenAI-compatible base URL (then ``model=NAME`` is needed).
    Options of models: ``device``, ``dtype``, ``lora`` (adapter folder), ``generator`` (auto, torch, vllm),
    ``chat_template``, ``constrain`` (draw admissible actions only), ``choice`` (score the admissible actions),
    ``cache_bytes``, ``max_batch``. ``noise=P`` wraps any policy in random actions with probability P.
    Raises UnknownNameError with the nearest names, ConfigError for an option that the policy does not take.
    """
    text = str(spec)
    noise = options.pop("noise", None)
    policy = _load(text, options)
    if noise is None:
        return policy
    from agentgym.policies.scripted import NoisyPolicy

    if isinstance(noise, bool) or not isinstance(noise, int | float):
        raise ConfigError(f"policy {text!r}: noise must be a number in [0, 1], got {noise!r}")
    return NoisyPolicy(policy, float(noise))


def _load(spec: str, options: dict[str, Any]) -> Policy:
    if spec in _NAMED:
        target = _NAMED[spec]
        return _call(target if callable(target) else _import(target), spec, options)
    if spec.startswith(("http://", "https://")):
        return _call(_import("agentgym.policies.openai_api:OpenAIPolicy"), spec, {"base_url": spec, **options})
    if spec and Path(spec).exists():
        return _model(spec, options)
    if ":" in spec and not spec.startswith((".", "/")):
        return _call(_import(spec), spec, options)
    if spec.count("/") == 1 and not spec.startswith((".", "/")):
        return _model(spec, options)  # a hub name
    raise unknown(
        "policy",
        spec,
        _NAMED,
        "A model is given by its folder, hub name (owner/name) or http(s) URL, and this is none.",
    )


def _model(spec: str, options: dict[str, Any]) -> Policy:
    """A model by folder or hub name, with the generator asked for."""
    generator = options.pop("generator", "auto")
    choice = options.pop("choice", False)
    if generator not in ("auto", "torch", "vllm"):
        raise unknown("generator", str(generator), ("auto", "torch", "vllm"))
    if choice and options.get("constrain"):
        raise ConfigError("choice and constrain are two ways to the same end: set one of them")
    if generator == "vllm" or (generator == "auto" and not choice and _vllm_usable(options)):
        from agentgym.policies.vllm import VLLMPolicy

        if choice:
            raise ConfigError("choice=True scores with the torch generator: leave out generator=vllm")
        return _call(VLLMPolicy.from_pretrained, spec, {"path": spec, **options})
    from agentgym.policies.hf import HFPolicy

    if choice:
        from agentgym.policies.choice import ChoicePolicy

        return _call(ChoicePolicy.from_pretrained, spec, {"path": spec, **options})
    return _call(HFPolicy.from_pretrained, spec, {"path": spec, **options})


def _vllm_usable(options: dict[str, Any]) -> bool:
    """Whether ``auto`` means vLLM: it is installed, CUDA is there, and nothing asks for what only torch does."""
    import importlib.util

    if importlib.util.find_spec("vllm") is None or options.get("constrain") or options.get("device") == "cpu":
        return False
    import torch

    return torch.cuda.is_available()


def _import(path: str) -> Callable[..., Policy]:
    module_name, _, name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and module_name.startswith(error.name):
            raise unknown("policy", path, _NAMED, f"There is no module {error.name!r}.") from error
        raise MissingDependency(f"policy {path!r} needs {error.name}: pip install {error.name}") from error
    except AgentGymError:
        raise
    except (Exception, SystemExit) as error:
        raise failed_code(f"policy {path!r}: importing {module_name!r}", error) from error
    found = getattr(module, name, None)
    if not callable(found):
        raise unknown(f"policy in {module_name}", name, (n for n in vars(module) if not n.startswith("_")))
    return found  # type: ignore[no-any-return]


def _call(factory: Callable[..., Policy], spec: str, options: dict[str, Any]) -> Policy:
    """Build the policy, refusing options it does not take."""
    known = _option_names(factory)
    for key in options:
        if key not in known:
            close = nearest(key, known)
            hint = f" Did you mean {close[0]!r}?" if close else f" It takes: {', '.join(sorted(known)) or 'none'}."
            raise ConfigError(f"policy {spec!r} has no option {key!r}.{hint}")
    try:
        inspect.signature(factory).bind(**options)
    except TypeError as error:
        raise ConfigError(f"policy {spec!r}: {error}; give it as an option") from error
    policy = factory(**options)
    if not isinstance(policy, Policy):
        raise ConfigError(f"policy {spec!r} made {policy!r}, expected an agentgym.Policy")
    return policy


def _option_names(factory: Callable[..., Any]) -> set[str]:
    """Keyword names a factory takes; a ``**options`` of a classmethod goes on to the constructor."""
    parameters = inspect.signature(factory).parameters.values()
    names = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    owner = getattr(factory, "__self__", None)
    if any(p.kind is p.VAR_KEYWORD for p in parameters) and isinstance(owner, type):
        names |= set(inspect.signature(owner).parameters) - {"model", "tokenizer"}
    return names
