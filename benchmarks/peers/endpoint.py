"""An instant OpenAI-compatible server: one canned answer over kept connections, standard library only.

python benchmarks/peers/endpoint.py     # prints its URL, ends when its input ends
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys

TEXT = "<action>hello</action>"


USAGE = {"prompt_tokens": 90, "completion_tokens": 6, "total_tokens": 96}
STREAMED = re.compile(rb'"stream"\s*:\s*true')


def http(kind: str, text: str) -> bytes:
    """A whole HTTP answer."""
    body = text.encode()
    return f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def whole() -> bytes:
    """The completion in one piece."""
    choice = {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": USAGE}
    return http("application/json", json.dumps(body))


def streamed() -> bytes:
    """The same as events: the text, its end, the usage."""
    said = {"index": 0, "delta": {"role": "assistant", "content": TEXT}, "finish_reason": None}
    ended = {"index": 0, "delta": {}, "finish_reason": "stop"}
    kind = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    events = [{**kind, "choices": [said]}, {**kind, "choices": [ended]}, {**kind, "choices": [], "usage": USAGE}]
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return http("text/event-stream", "".join([*lines, "data: [DONE]\n\n"]))


async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every request of one connection."""
    plain, events = whole(), streamed()
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            body = b""
            if b"content-length:" in head:
                at = head.index(b"content-length:") + 15
                body = await reader.readexactly(int(head[at : head.index(b"\r", at)]))
            writer.write(events if STREAMED.search(body) else plain)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    """Serve until standard input is closed: the server goes with whoever started it."""
    server = await asyncio.start_server(client, "127.0.0.1", 0, backlog=512, limit=1 << 22)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    os._exit(0)  # connections that are still open need no farewell


if __name__ == "__main__":
    asyncio.run(main())
