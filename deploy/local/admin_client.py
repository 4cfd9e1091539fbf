"""Asking every process of a running cluster what it does, over its admin port."""

import asyncio
from dataclasses import dataclass

import aiohttp

from deploy.local.ports import LOOPBACK
from deploy.local.state import ProcessState

ASK_LIMIT_S = 2.0


@dataclass(frozen=True, slots=True)
class Report:
    process: ProcessState
    answer: str
    """ready, starting, draining, not ready; or that it did not answer."""
    service: dict[str, object]
    """The service's own numbers; empty when it did not answer."""


async def ask_all(processes: tuple[ProcessState, ...]) -> list[Report]:
    timeout = aiohttp.ClientTimeout(total=ASK_LIMIT_S)
    async with aiohttp.ClientSession(timeout=timeout) as session:
        return await asyncio.gather(*(_ask(session, process) for process in processes))


async def _ask(session: aiohttp.ClientSession, process: ProcessState) -> Report:
    if process.identity is None:
        return Report(process, "dead, restarting", {})
    try:
        async with session.get(f"http://{LOOPBACK}:{process.admin_port}/status") as reply:
            status = await reply.json()
    except (aiohttp.ClientError, TimeoutError):
        return Report(process, "no answer", {})
    phase = str(status["phase"])
    serving = "ready" if status["ready"] else "not ready"
    return Report(process, serving if phase == "serving" else phase, dict(status["service"]))
