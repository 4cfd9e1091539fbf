"""POST /v1/completions: texts or token ids, one or many, each with n choices.

Choice `index` counts over all prompts: prompt k owns indexes k*n to k*n + n - 1.
"""

import asyncio
from dataclasses import dataclass

from aiohttp import web

from common.domain.errors import InvalidRequest
from services.gateway.http.answer import Head, JsonObject, finish_name, finite, token_ids
from services.gateway.http.call import Call
from services.gateway.http.generate import Job, head_of, respond, room_for
from services.gateway.http.prompts import Prompt, completion_prompts
from services.gateway.http.schema import CompletionBody, parse
from services.gateway.http.unsupported import refuse_unsupported, unknown_fields
from services.gateway.http.validate import check_combinations
from services.gateway.text_output import Delta, TokenText


async def completions(call: Call) -> web.StreamResponse:
    value = await call.json()
    body = parse(CompletionBody, value)
    call.name(body.request_id)
    refuse_unsupported(value)
    call.note_unknown(unknown_fields(value, CompletionBody.model_fields))
    check_combinations(body)
    card = call.desk.card_for(body.model)
    prompts = completion_prompts(body.prompt, card.vocab)
    encoded = await asyncio.gather(*(_encode(call, prompt) for prompt in prompts))
    echoes = [_echo(call, prompt) for prompt in prompts] if body.echo else []
    options = body.stream_options
    job = Job(
        generations=[room_for(call, body, card, ids, "prompt") for ids in encoded],
        renderer=CompletionRenderer(
            head_of(call, "cmpl-", card),
            body.n or 1,
            tuple(echoes),
            body.logprobs,
            bool(body.return_token_ids),
        ),
        stream=bool(body.stream),
        usage=bool(options and options.include_usage),
        running_usage=bool(options and options.continuous_usage_stats),
        ledger=bool(body.return_ledger),
    )
    return await respond(call, job)


async def _encode(call: Call, prompt: Prompt) -> list[int]:
    if not isinstance(prompt, str):
        return prompt
    ids = await call.desk.text.encode(prompt, add_special=True)
    if not ids:
        raise InvalidRequest("prompt gives no tokens", "prompt")
    return ids


def _echo(call: Call, prompt: Prompt) -> str:
    return prompt if isinstance(prompt, str) else call.desk.text.decode(prompt)


@dataclass(frozen=True, slots=True)
class CompletionRenderer:
    head: Head
    n: int
    echoes: tuple[str, ...]
    """The text of each prompt if it is to be repeated, else nothing."""
    logprobs: int | None
    token_ids: bool = False

    def opening(self, choices: int) -> list[JsonObject]:
        if not self.echoes:
            return []
        return [self._chunk(self._choice(i, self._echo(i), [], None)) for i in range(choices)]

    def chunks(self, index: int, delta: Delta) -> list[JsonObject]:
        choice = self._choice(index, "".join(delta.text), delta.logprobs, finish_name(delta.finish))
        choice |= token_ids(delta, self.token_ids)
        if delta.finish is not None:
            choice["stop_reason"] = delta.finish.stop
        return [self._chunk(choice)]

    def usage_chunk(self, usage: JsonObject) -> JsonObject:
        return self.head.wrap("text_completion", []) | {"usage": usage}

    def whole(self, deltas: list[Delta], usage: JsonObject) -> JsonObject:
        choices = []
        for index, delta in enumerate(deltas):
            text = self._echo(index) + "".join(delta.text)
            choice = self._choice(index, text, delta.logprobs, finish_name(delta.finish))
            choice["stop_reason"] = None if delta.finish is None else delta.finish.stop
            choice |= token_ids(delta, self.token_ids)
            choices.append(choice)
        return self.head.wrap("text_completion", choices) | {"usage": usage}

    def _echo(self, index: int) -> str:
        return self.echoes[index // self.n] if self.echoes else ""

    def _choice(
        self, index: int, text: str, tokens: list[TokenText], finish: str | None
    ) -> JsonObject:
        logprobs = None if self.logprobs is None else self._logprobs(tokens, self.logprobs)
        return {"index": index, "text": text, "logprobs": logprobs, "finish_reason": finish}

    def _chunk(self, choice: JsonObject) -> JsonObject:
        return self.head.wrap("text_completion", [choice])

    def _logprobs(self, tokens: list[TokenText], rivals: int) -> JsonObject:
        return {
            "tokens": [_text(token.token) for token in tokens],
            "token_logprobs": [finite(token.logprob) for token in tokens],
            "top_logprobs": [_top(token, rivals) for token in tokens],
            "text_offset": [token.offset for token in tokens],
        }


def _top(token: TokenText, rivals: int) -> JsonObject:
    """The most likely ones and, if it is not among them, the chosen one."""
    top: JsonObject = {_text(rival): finite(value) for rival, value in token.top[:rivals]}
    return top | {_text(token.token): finite(token.logprob)}


def _text(token: bytes) -> str:
    """A token that is no text by itself is spelled out, so that two of them differ."""
    try:
        return token.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in token)
