"""Reads a server's Prometheus pages, and the CPU time of a cluster of ours, while a run lasts.

Before, every second, after. A page is only kept while the run lasts and parsed when figures are
asked for, because parsing takes the time of the client that measures. What does not answer gives
nothing.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp

from deploy.local.identity import Identity, cpu_seconds
from deploy.local.ports import LOOPBACK
from loadtest.cluster import Cluster
from loadtest.server_metrics import Moment, Page, metric_figures, parse_page, thinned

EVERY_S = 1.0
ANSWER_LIMIT_S = 1.0
SERVER = "server"
"""The name of a page of a server that is no cluster of ours."""

Life = tuple[str, Identity]
"""Of a process, by its name."""


@dataclass(slots=True)
class CpuTimes:
    """Seconds used by every life of every process: at first, and as last seen."""

    first: dict[Life, float] = field(default_factory=dict)
    last: dict[Life, float] = field(default_factory=dict)

    def note(self, used: Mapping[Life, float], *, begin: bool = False) -> None:
        """A life that is not there at the beginning began at 0. One that is gone keeps what it
        had, for it reads as 0."""
        for life, seconds in used.items():
            if begin:
                self.first[life] = seconds
            self.last[life] = max(self.last.get(life, 0.0), seconds)

    def figures(self) -> dict[str, float]:
        found: dict[str, float] = {}
        for (name, identity), seconds in self.last.items():
            began = self.first.get((name, identity), 0.0)
            found[f"cpu_s.{name}"] = found.get(f"cpu_s.{name}", 0.0) + seconds - began
        return found


@dataclass(slots=True)
class Watched:
    """What was read. Whole when the block has been left."""

    before: Mapping[str, str] = field(default_factory=dict)
    """Pages by process, as they were."""
    after: Mapping[str, str] = field(default_factory=dict)
    cpu: CpuTimes = field(default_factory=CpuTimes)
    client_s: float = 0.0
    pages: list[Mapping[str, str]] = field(default_factory=list)
    """Of every moment, thinned."""

    def figures(self) -> dict[str, float]:
        """By name, without `server.`."""
        found = metric_figures([_moment(pages) for pages in self.pages])
        return found | self.cpu.figures() | {"cpu_s.client": self.client_s}


def _moment(pages: Mapping[str, str]) -> Moment:
    parsed = {name: _page_or_none(text) for name, text in pages.items()}
    return {name: page for name, page in parsed.items() if page is not None}


def _page_or_none(text: str) -> Page | None:
    try:
        return parse_page(text)
    except ValueError:
        return None


@asynccontextmanager
async def watch(
    base_url: str, cluster: Cluster | None, session: aiohttp.ClientSession
) -> AsyncIterator[Watched]:
    """`cluster`: the one that serves `base_url`, if it is ours."""
    watcher = _Watcher(base_url, cluster, session)
    watched = watcher.watched
    began_s = time.process_time()
    watched.before = await watcher.look(begin=True)
    watching = asyncio.create_task(watcher.run())
    try:
        yield watched
    finally:
        watched.client_s = time.process_time() - began_s
        watching.cancel()
        await asyncio.wait({watching})
        watched.after = await watcher.look()
    if not watching.cancelled():
        watching.result()


class _Watcher:
    def __init__(
        self, base_url: str, cluster: Cluster | None, session: aiohttp.ClientSession
    ) -> None:
        self._cluster = cluster
        self._session = session
        if cluster is None:
            self._places = {SERVER: base_url.rstrip("/").removesuffix("/v1") + "/metrics"}
        else:
            # A gateway says the same on its admin port, so its own address is not asked.
            self._places = {
                process.name: f"http://{LOOPBACK}:{process.admin_port}/metrics"
                for process in cluster.state().processes
            }
        self.watched = Watched()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        if self._cluster is None and not self.watched.before:
            # A server without such a page is not asked again and again.
            return
        while True:
            due += EVERY_S
            await asyncio.sleep(max(0.0, due - loop.time()))
            await self.look()

    async def look(self, *, begin: bool = False) -> dict[str, str]:
        if self._cluster is not None:
            self.watched.cpu.note(_used(self._cluster), begin=begin)
        texts = await asyncio.gather(*map(self._page, self._places.values()))
        whole = {name: text for name, text in zip(self._places, texts, strict=True) if text}
        self.watched.pages.append({name: thinned(text) for name, text in whole.items()})
        return whole

    async def _page(self, place: str) -> str:
        """'' where there is none."""
        limit = aiohttp.ClientTimeout(total=ANSWER_LIMIT_S)
        try:
            async with self._session.get(place, timeout=limit) as reply:
                is_page = reply.status == 200 and reply.content_type != "text/html"
                return await reply.text(errors="replace") if is_page else ""
        except (aiohttp.ClientError, TimeoutError):
            return ""


def _used(cluster: Cluster) -> dict[Life, float]:
    return {
        (process.name, process.identity): cpu_seconds(process.identity)
        for process in cluster.state().processes
        if process.identity is not None
    }
