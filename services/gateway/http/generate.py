"""From a validated request to an answer: submit, wait for the first token, write.

The status line goes out with the first token, never before: whatever fails until then has a status
of its own. From then on a failure is one error frame. Either way an answer ends exactly once. What
is there is written at once; nothing waits for company.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

import numpy as np
from aiohttp import web

from common.domain.card import ModelCard
from common.kv.hashing import chain_root, extend_chain
from common.wire.columns import pack_hashes
from services.gateway.exchange import AttemptLost, Exchange, Timing
from services.gateway.generation import Generation
from services.gateway.http import sse
from services.gateway.http.answer import Head, Renderer, ledger_columns, usage
from services.gateway.http.call import Call
from services.gateway.http.errors import http_error
from services.gateway.http.schema import ChatBody, CompletionBody
from services.gateway.http.validate import fit_max_tokens, sampling_params, text_options
from services.gateway.text_output import Delta


@dataclass(frozen=True, slots=True)
class Job:
    generations: list[Generation]
    renderer: Renderer
    stream: bool
    usage: bool
    """A last chunk with the numbers; always there in an answer of one piece."""
    running_usage: bool
    """Numbers so far in every chunk."""
    ledger: bool
    """Where the time went, beside the usage of the whole answer."""


def head_of(call: Call, prefix: str, card: ModelCard) -> Head:
    return Head(prefix + call.id, int(time.time()), card.model)


def room_for(
    call: Call, body: ChatBody | CompletionBody, card: ModelCard, ids: Sequence[int], param: str
) -> Generation:
    """One stream for this prompt. Raises ContextOverflow or InvalidRequest."""
    max_tokens = fit_max_tokens(body, len(ids), card, param)
    prompt = np.asarray(ids, dtype=np.int32)
    root = chain_root(card.weights_digest, "", hash_salt("", body.cache_salt))
    return Generation(
        prompt=prompt,
        root=root,
        units=pack_hashes(extend_chain(root, prompt)),
        sampling=sampling_params(body, card, max_tokens, call.desk.new_seed()),
        text=text_options(body, card),
        priority=body.priority or 0,
    )


def hash_salt(tenant: str, cache_salt: str | None) -> str:
    """Who may share cached blocks. Lengths make it injective: no tenant's name is a client's salt.
    Empty for nobody in particular."""
    if not tenant and not cache_salt:
        return ""
    salt = cache_salt or ""
    return f"tenant:{len(tenant)}:{tenant};salt:{len(salt)}:{salt}"


async def respond(call: Call, job: Job) -> web.StreamResponse:
    desk = call.desk
    exchange = Exchange(call.id, call.client_id, call.endpoint, Timing(call.arrived))
    try:
        for generation in job.generations:
            desk.attempts.submit(exchange, generation)
            call.generating = True
        first = await exchange.first()
        if job.stream:
            return await _stream(call, job, exchange, first)
        return await _whole(call, job, exchange, first)
    except asyncio.CancelledError:
        desk.metrics.disconnects.inc()
        raise
    finally:
        desk.attempts.leave(exchange)


async def _whole(call: Call, job: Job, exchange: Exchange, first: dict[int, Delta]) -> web.Response:
    deltas = [Delta() for _ in exchange.texts]
    pending = first
    while pending:
        for index, delta in pending.items():
            deltas[index].add(delta)
        pending = await exchange.take()
    ledger = await exchange.ledger()
    answer = job.renderer.whole(deltas, usage(exchange, ledger))
    answer |= ledger_columns(exchange, ledger, job.ledger)
    return web.json_response(answer, headers=call.headers)


async def _stream(
    call: Call, job: Job, exchange: Exchange, first: dict[int, Delta]
) -> web.StreamResponse:
    response = web.StreamResponse(headers=sse.HEADERS | call.headers)
    limit_s = call.desk.write_limit_s
    try:
        async with asyncio.timeout(limit_s):
            await response.prepare(call.request)
        call.started = True
        async with contextlib.aclosing(_bodies(job, exchange, first)) as bodies:
            async for body in bodies:
                async with asyncio.timeout(limit_s):
                    await response.write(body)
        async with asyncio.timeout(limit_s):
            await response.write_eof(sse.DONE)
    except (TimeoutError, ConnectionError):
        _cut(call)
    return response


async def _bodies(
    job: Job, exchange: Exchange, first: dict[int, Delta]
) -> AsyncGenerator[bytes, None]:
    """Everything but the end mark, each part as soon as it is there."""
    opening = job.renderer.opening(len(exchange.texts))
    yield b"".join(map(sse.frame, opening)) + _frames(job, exchange, first)
    try:
        while pending := await exchange.take():
            yield _frames(job, exchange, pending)
    except AttemptLost as error:
        yield sse.frame(http_error(error).frame())
        return
    if job.usage:
        ledger = await exchange.ledger()
        chunk = job.renderer.usage_chunk(usage(exchange, ledger))
        yield sse.frame(chunk | ledger_columns(exchange, ledger, job.ledger))


def _frames(job: Job, exchange: Exchange, pending: dict[int, Delta]) -> bytes:
    chunks = [
        chunk for index, delta in pending.items() for chunk in job.renderer.chunks(index, delta)
    ]
    if job.running_usage:
        numbers = {"usage": usage(exchange, None)}
        chunks = [chunk | numbers for chunk in chunks]
    return b"".join(map(sse.frame, chunks))


def _cut(call: Call) -> None:
    """The client reads nothing, or is gone without our handler having been cancelled."""
    call.desk.metrics.disconnects.inc()
    if call.request.transport is not None:
        call.request.transport.abort()
