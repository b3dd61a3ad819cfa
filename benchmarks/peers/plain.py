"""A plain loop over AsyncOpenAI: the floor of an HTTP turn. It runs wherever ``openai`` is installed."""

from __future__ import annotations

import asyncio
import importlib


def ask(url: str, episodes: int, turns: int, concurrency: int) -> int:
    """Echo conversations of ``turns`` requests each, ``concurrency`` at once, history sent whole; requests made."""
    return asyncio.run(_ask(url, episodes, turns, concurrency))


async def _ask(url: str, episodes: int, turns: int, concurrency: int) -> int:
    import openai

    try:
        http = importlib.import_module("httpx2")  # what openai >= 3 is built on
    except ImportError:
        http = importlib.import_module("httpx")
    limits = http.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    pool = openai.DefaultAsyncHttpxClient(limits=limits)
    client = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=120, http_client=pool)
    waiting = iter(range(episodes))
    asked = 0

    async def slot() -> None:
        nonlocal asked
        for _ in waiting:
            messages = [{"role": "user", "content": "say something"}]
            for _ in range(turns):
                answer = await client.chat.completions.create(
                    model="m", messages=messages, temperature=1.0, top_p=1.0, max_tokens=64, seed=1
                )
                text = answer.choices[0].message.content
                asked += 1
                messages += [
                    {"role": "assistant", "content": text},
                    {"role": "user", "content": f"you said {text}"},
                ]

    await asyncio.gather(*(slot() for _ in range(concurrency)))
    await client.close()
    return asked
