"""An instant OpenAI-compatible server: one canned answer over kept connections, standard library only.

python benchmarks/peers/endpoint.py     # prints its URL, ends when its input ends
"""

from __future__ import annotations

import asyncio
import json
import os
import sys

TEXT = "<action>hello</action>"


def answer() -> bytes:
    """The whole HTTP answer."""
    choice = {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 90, "completion_tokens": 6, "total_tokens": 96}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    text = json.dumps(body).encode()
    return f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n\r\n".encode() + text


async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer every request of one connection."""
    canned = answer()
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            if b"content-length:" in head:
                at = head.index(b"content-length:") + 15
                await reader.readexactly(int(head[at : head.index(b"\r", at)]))
            writer.write(canned)
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
