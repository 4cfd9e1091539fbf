"""A handler that remembers, and messages to tell apart."""

import asyncio
from collections.abc import Callable

from common.domain.ids import AttemptKey, Incarnation, ProcessId, ProcessName, RequestId
from common.wire.messages import Cancel, Message
from common.wire.port import Link


def cancel(number: int) -> Cancel:
    return Cancel(AttemptKey(RequestId(f"r{number}"), number))


def process(name: str, incarnation: int) -> ProcessId:
    return ProcessId(ProcessName(name), Incarnation(incarnation))


class Recorder:
    """Remembers everything; answers if told to, and greets on every connection it made."""

    def __init__(self, answer: bool = False, greeting: Message | None = None) -> None:
        self.messages: list[Message] = []
        self.ups = 0
        self.downs: list[Link] = []
        self.last: Link | None = None
        self._answer = answer
        self._greeting = greeting
        self._changed = asyncio.Event()

    def on_message(self, link: Link, message: Message) -> None:
        self.messages.append(message)
        self.last = link
        if self._answer:
            link.send(message)
        self._changed.set()

    def on_up(self, link: Link) -> None:
        self.ups += 1
        if self._greeting is not None:
            link.send(self._greeting)
        self._changed.set()

    def on_down(self, link: Link) -> None:
        self.downs.append(link)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not condition():
                self._changed.clear()
                await self._changed.wait()
