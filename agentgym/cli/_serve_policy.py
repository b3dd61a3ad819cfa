"""``agentgym serve policy``: a checkpoint behind OpenAI's chat completions interface."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from agentgym.cli.common import options


@click.command("policy", short_help="Answer OpenAI-compatible requests with a model.")
@click.argument("checkpoint", metavar="CHECKPOINT")
@options(
    click.option("--lora", metavar="FOLDER", help="A peft adapter on top of the model."),
    click.option("--name", default="", help="What clients call the model [default: the folder's name]."),
    click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, ..."),
    click.option("--dtype", default="auto", show_default=True, help="auto, float32 or bfloat16."),
    click.option("--generator", default="auto", show_default=True, help="auto (vLLM where it works), torch or vllm."),
    click.option("--chat-template", metavar="FILE", help="For models without one: a file, chatml or plain."),
    click.option("--template-option", "template_options", multiple=True, metavar="KEY=VALUE",
                 help="Variable of the chat template, for example enable_thinking=false."),
    click.option("--model-option", "model_options", multiple=True, metavar="KEY=VALUE",
                 help="Any other option of the model, for example vLLM's gpu_memory_utilization=0.5."),
    click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on."),
    click.option("--port", default=8200, show_default=True, type=click.IntRange(0, 65535), help="0: a free one."),
    click.option("--token-file", type=click.Path(exists=True, dir_okay=False, path_type=Path),
                 help="File with the API key that requests must carry [default: one is made and shown]."),
    click.option("--no-token", is_flag=True, help="No authentication; on loopback addresses only."),
    click.option("--max-requests", default=256, show_default=True, type=click.IntRange(1), help="Answers under way."),
    click.option("--max-tokens", default=4096, show_default=True, type=click.IntRange(1), help="Of one answer."),
    click.option("--max-body", default=4 << 20, show_default=True, type=click.IntRange(100), help="Bytes a request."),
    click.option("--deadline", default=600.0, show_default=True, type=click.FloatRange(0.1), metavar="SECONDS",
                 help="For one answer."),
)  # fmt: skip
def policy(
    checkpoint: str,
    lora: str | None,
    name: str,
    device: str,
    dtype: str,
    generator: str,
    chat_template: str | None,
    template_options: tuple[str, ...],
    model_options: tuple[str, ...],
    host: str,
    port: int,
    token_file: Path | None,
    no_token: bool,
    max_requests: int,
    max_tokens: int,
    max_body: int,
    deadline: float,
) -> None:
    """Answer chat completions with the model CHECKPOINT (a folder or hub name) until Ctrl-C.

    Any OpenAI client can ask it: POST /v1/chat/completions, streamed or not, with tools, n, stop, seed and logprobs.
    """
    from agentgym.cli import serve
    from agentgym.cli.common import pairs, shown
    from agentgym.errors import ConfigError, MissingDependency

    try:
        import uvicorn
    except ModuleNotFoundError as error:
        raise MissingDependency(f"serving needs {error.name}: pip install 'agentgym-turns[serve]'") from error
    if no_token and (token_file is not None or not serve.is_loopback(host)):
        raise ConfigError("--no-token goes with a loopback --host and without --token-file")
    token = "" if no_token else serve.token_of(token_file)
    listener = serve.listen(host, port)  # a port in use is said before minutes of loading
    with listener:
        given = {
            "lora": lora, "generator": generator, "chat_template": chat_template,
            "template_options": pairs(template_options, "--template-option") or None,
            "dtype": dtype, "device": None if device == "auto" else device,
            **pairs(model_options, "--model-option"),
        }  # fmt: skip
        model = _load(checkpoint, {key: value for key, value in given.items() if value is not None})
        from agentgym.serving.completions import CompletionLimits, make_policy_app

        called = name or (Path(checkpoint).resolve().name if Path(checkpoint).is_dir() else checkpoint)
        limits = CompletionLimits(max_requests, max_tokens, body=max_body, deadline=deadline)
        app = make_policy_app(model, called, limits, token)
        url = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}/v1"
        click.echo(f"{shown(called)} at {url}; Ctrl-C stops")
        if token and token_file is None:
            click.echo(f"Clients need: export OPENAI_API_KEY={token}")
        click.echo(f"Next: agentgym eval keydoor --model {url} --model-option model={shown(called)}")
        if not serve.is_loopback(host):
            click.echo(
                "The connection is not encrypted: put a TLS proxy before it on networks you do not trust.", err=True
            )
        config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=serve.GRACE)
        uvicorn.Server(config).run(sockets=[listener])


def _load(checkpoint: str, given: dict[str, Any]) -> Any:
    """The model; only what can be served: a folder or a hub name."""
    from agentgym.errors import ConfigError
    from agentgym.policies import load_policy, policy_names

    if checkpoint in policy_names() or checkpoint.startswith(("http://", "https://")):
        raise ConfigError(f"{checkpoint!r} is no model of ours to serve: give a model's folder or hub name")
    return load_policy(checkpoint, **given)
