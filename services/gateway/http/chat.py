"""POST /v1/chat/completions."""

from dataclasses import dataclass

from aiohttp import web

from common.domain.card import ModelCard
from services.gateway.generation import Generation
from services.gateway.http.answer import Head, JsonObject, finish_name, finite, token_ids
from services.gateway.http.call import Call
from services.gateway.http.generate import Job, head_of, respond, room_for
from services.gateway.http.prompts import chat_messages
from services.gateway.http.schema import ChatBody, Templated, parse
from services.gateway.http.unsupported import refuse_unsupported, unknown_fields
from services.gateway.http.validate import check_combinations
from services.gateway.text_output import Delta, TokenText


async def chat_completions(call: Call) -> web.StreamResponse:
    value = await call.json()
    body = parse(ChatBody, value)
    call.name(body.request_id)
    refuse_unsupported(value)
    call.note_unknown(unknown_fields(value, ChatBody.model_fields))
    check_combinations(body)
    messages = chat_messages(body.messages)
    card = call.desk.card_for(body.model)
    ids = await encode_messages(call, body, messages)
    generation = room_for(call, body, card, ids, "messages")
    return await respond(call, _job(call, body, card, generation))


async def encode_messages(call: Call, body: Templated, messages: list[JsonObject]) -> list[int]:
    kwargs = dict(body.chat_template_kwargs or {})
    if body.reasoning_effort is not None:
        kwargs.setdefault("reasoning_effort", body.reasoning_effort)
    continued = bool(body.continue_final_message)
    opened = body.add_generation_prompt
    return await call.desk.text.encode_chat(
        messages,
        add_generation_prompt=not continued if opened is None else opened,
        continue_final_message=continued,
        kwargs=kwargs,
    )


def _job(call: Call, body: ChatBody, card: ModelCard, generation: Generation) -> Job:
    options = body.stream_options
    return Job(
        generations=[generation],
        renderer=ChatRenderer(
            head_of(call, "chatcmpl-", card),
            body.top_logprobs or 0,
            bool(body.logprobs),
            bool(body.return_token_ids),
        ),
        stream=bool(body.stream),
        usage=bool(options and options.include_usage),
        running_usage=bool(options and options.continuous_usage_stats),
        ledger=bool(body.return_ledger),
    )


@dataclass(frozen=True, slots=True)
class ChatRenderer:
    head: Head
    top_logprobs: int
    logprobs: bool
    token_ids: bool = False

    def opening(self, choices: int) -> list[JsonObject]:
        return [
            self._chunk(index, {"role": "assistant", "content": ""}) for index in range(choices)
        ]

    def chunks(self, index: int, delta: Delta) -> list[JsonObject]:
        """Text and end are two chunks; what comes without text goes with the end."""
        text = "".join(delta.text)
        entries = self._logprobs(delta.logprobs) if delta.logprobs else None
        ids = token_ids(delta, bool(delta.ids))
        chunks: list[JsonObject] = []
        if text:
            chunks.append(self._chunk(index, {"content": text}, entries, ids))
            entries, ids = None, {}
        if delta.finish is not None or entries is not None or ids:
            end: JsonObject = {"finish_reason": finish_name(delta.finish)} | ids
            if delta.finish is not None:
                end["stop_reason"] = delta.finish.stop
            chunks.append(self._chunk(index, {}, entries, end))
        return chunks

    def usage_chunk(self, usage: JsonObject) -> JsonObject:
        return self.head.wrap("chat.completion.chunk", []) | {"usage": usage}

    def whole(self, deltas: list[Delta], usage: JsonObject) -> JsonObject:
        choices: list[JsonObject] = [
            {
                "index": index,
                "message": {"role": "assistant", "content": "".join(delta.text)},
                "logprobs": self._logprobs(delta.logprobs) if self.logprobs else None,
                "finish_reason": finish_name(delta.finish),
                "stop_reason": None if delta.finish is None else delta.finish.stop,
            }
            | token_ids(delta, self.token_ids)
            for index, delta in enumerate(deltas)
        ]
        return self.head.wrap("chat.completion", choices) | {"usage": usage}

    def _chunk(
        self,
        index: int,
        delta: JsonObject,
        logprobs: JsonObject | None = None,
        end: JsonObject | None = None,
    ) -> JsonObject:
        choice: JsonObject = {
            "index": index,
            "delta": delta,
            "logprobs": logprobs,
            "finish_reason": None,
        }
        return self.head.wrap("chat.completion.chunk", [choice | (end or {})])

    def _logprobs(self, tokens: list[TokenText]) -> JsonObject:
        return {
            "content": [
                _entry(token.token, token.logprob)
                | {"top_logprobs": [_entry(*rival) for rival in token.top[: self.top_logprobs]]}
                for token in tokens
            ]
        }


def _entry(token: bytes, logprob: float) -> JsonObject:
    return {
        "token": token.decode(errors="replace"),
        "logprob": finite(logprob),
        "bytes": list(token),
    }
