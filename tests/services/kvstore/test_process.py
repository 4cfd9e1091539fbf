"""A real kvstore process between a real worker's client and a bare router, over both transports."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from common.domain.ids import Incarnation, ProcessId, ProcessName
from common.domain.peer import PeerRef, Role
from common.store.arena import Arena
from common.store.client import StoreClient
from common.store.publish import Publication, publish
from common.store.transfer import Transfer
from common.wire.messages import Message
from common.wire.messages.cluster import Hello, Pulse, Welcome
from common.wire.messages.events import BlocksStored
from common.wire.port import Link
from common.wire.zmq_port import ZmqPort
from tests.support.blocks import LAYOUT, ROOT, Chain

FLEET_ROOT = Path(__file__).parents[3]
WORKER = ProcessId(ProcessName("decode-0"), Incarnation(3))
CHAIN = Chain(1, 5)


@dataclass
class Fleet:
    """A router that welcomes everybody and a worker's store client, in this process."""

    run_dir: Path
    tcp: bool
    heard: list[Message] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def address(self, name: str) -> str:
        return "tcp://127.0.0.1:*" if self.tcp else f"ipc://{self.run_dir}/{name}"

    def host(self, name: str) -> str:
        return name if self.tcp else "one"

    def open(self) -> None:
        self.router = ZmqPort(
            ProcessId(ProcessName("router-0"), Incarnation(1)), self.address("router")
        )
        self.router.start(self)
        self.port = ZmqPort(WORKER, self.address("decode-0"))
        self.port.start(self)
        self.arena = Arena.create("worker", 8, LAYOUT.block_bytes)
        data = "tcp://127.0.0.1:*" if self.tcp else ""
        self.publication: Publication = publish(
            self.arena, WORKER, self.host("decode-0"), self.run_dir, data
        )
        self.transfer = Transfer.open(self.host("decode-0"))
        self.store = StoreClient(self.port, self.transfer, self.hello, LAYOUT)

    def hello(self) -> Hello:
        ref = self.publication.ref
        return Hello(PeerRef(WORKER.name, WORKER.incarnation, Role.DECODE, self.port.address, ref))

    def start_kvstore(self) -> subprocess.Popen[bytes]:
        settings = {
            "NAME": "kvstore-0",
            "RUN_DIR": str(self.run_dir),
            "HOST": self.host("kvstore-0"),
            "ROUTER_ADDRESS": self.router.address,
            "BIND_ADDRESS": self.address("kvstore-0"),
            "ARENA_BYTES": str(16 * LAYOUT.block_bytes),
        }
        return subprocess.Popen(
            [sys.executable, "-m", "services.kvstore"],
            cwd=FLEET_ROOT,
            env={**os.environ, **{f"TWINFLEET_{name}": value for name, value in settings.items()}},
        )

    def on_message(self, link: Link, message: Message) -> None:
        if not self.store.on_message(link, message):
            self.heard.append(message)
            if isinstance(message, Hello):
                link.send(Welcome(accepted=True))
        self.changed.set()

    def on_up(self, link: Link) -> None: ...

    def on_down(self, link: Link) -> None:
        self.store.on_down(link)
        self.changed.set()

    async def first(self, kind: type[Message]) -> Message:
        async with asyncio.timeout(15):
            while True:
                for message in self.heard:
                    if isinstance(message, kind):
                        return message
                self.changed.clear()
                await self.changed.wait()

    def close(self) -> None:
        self.store.close()
        self.transfer.close()
        self.publication.close()
        self.arena.close()
        self.port.close()
        self.router.close()


@pytest.fixture(params=["ipc", "tcp"])
async def fleet(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Fleet]:
    fleet = Fleet(tmp_path, request.param == "tcp")
    fleet.open()
    yield fleet
    fleet.close()


async def test_blocks_go_to_another_process_and_come_back(fleet: Fleet) -> None:
    child = fleet.start_kvstore()
    try:
        hello = await fleet.first(Hello)
        assert isinstance(hello, Hello)
        fleet.store.store_changed(hello.me)
        done = asyncio.Event()
        fleet.store.offer(ROOT, CHAIN.units, CHAIN.write(fleet.arena), done.set)
        await asyncio.wait_for(done.wait(), 10)
        await fleet.first(BlocksStored)
        await fleet.first(Pulse)
        lease = await fleet.store.lookup(CHAIN.names)
        targets = [memoryview(bytearray(LAYOUT.block_bytes)) for _ in range(5)]
        assert await lease.read(targets) == 5
        assert [bytes(target) for target in targets] == [CHAIN.content(i) for i in range(5)]
        used = "far" if fleet.tcp else "near"
        assert fleet.transfer.moved[used].bytes == 5 * LAYOUT.block_bytes
        child.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(child.wait, 15) == 0
        async with asyncio.timeout(5):
            while fleet.store.available:
                fleet.changed.clear()
                await fleet.changed.wait()
    finally:
        child.kill()
        child.wait()
