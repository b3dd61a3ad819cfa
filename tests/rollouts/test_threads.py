"""Threads that run calls for an event loop: every outcome arrives, once, in whichever loop asked."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref

from agentgym.rollouts import threads
from agentgym.rollouts.threads import ServiceThread


def test_every_outcome_of_many_threads_arrives():
    workers = [ServiceThread(f"w{k}") for k in range(16)]

    async def ask(worker: ServiceThread, number: int) -> int:
        ok, value = await worker.submit(lambda: number)
        assert ok
        return int(value)

    async def main() -> list[int]:
        asked = (ask(workers[k % 16], k) for k in range(4000))
        return await asyncio.wait_for(asyncio.gather(*asked), 60)

    assert asyncio.run(main()) == list(range(4000))
    assert asyncio.run(main()) == list(range(4000))  # another loop, the same threads
    assert all(worker.shut_down(timeout=30) for worker in workers)


def test_an_outcome_for_a_loop_that_has_ended_hurts_nobody():
    worker, gate = ServiceThread("w"), threading.Event()
    left = []

    async def leave() -> None:
        left.append(weakref.ref(asyncio.get_running_loop()))
        worker.submit(gate.wait, 60)

    asyncio.run(leave())
    gate.set()

    async def again() -> tuple[bool, object]:
        return await asyncio.wait_for(worker.submit(lambda: 7), 60)

    assert asyncio.run(again()) == (True, 7)
    gc.collect()
    assert left[0]() is None
    assert worker.shut_down(timeout=30)


def test_a_call_that_was_given_up_does_not_stop_those_after_it():
    worker, gate = ServiceThread("w"), threading.Event()

    async def main() -> tuple[bool, object]:
        first, second = worker.submit(gate.wait, 60), worker.submit(lambda: 1 // 0)
        first.cancel()
        gate.set()
        return await asyncio.wait_for(second, 60)

    ok, error = asyncio.run(main())
    assert not ok
    assert isinstance(error, ZeroDivisionError)
    assert worker.shut_down(timeout=30)


def test_a_letter_that_was_never_read_keeps_no_loop():
    loops = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loops.append(weakref.ref(loop))
        worker, box = ServiceThread("w"), threads.mailbox()
        await worker.submit(lambda: None)
        box.post(loop.create_future(), (True, None))  # and the loop ends before it looks
        worker.shut_down(timeout=30)

    asyncio.run(main())
    gc.collect()
    assert loops[0]() is None
