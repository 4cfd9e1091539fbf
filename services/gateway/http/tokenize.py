"""POST /tokenize and /detokenize: what a prompt costs, without running it."""

from aiohttp import web

from common.domain.errors import InvalidRequest
from services.gateway.http.answer import JsonObject
from services.gateway.http.call import Call
from services.gateway.http.chat import encode_messages
from services.gateway.http.prompts import chat_messages, check_ids
from services.gateway.http.schema import DetokenizeBody, TokenizeBody, parse


async def tokenize(call: Call) -> web.StreamResponse:
    body = parse(TokenizeBody, await call.json())
    card = call.desk.card_for(body.model)
    ids = await _encode(call, body)
    answer: JsonObject = {"count": len(ids), "max_model_len": card.context_tokens, "tokens": ids}
    if body.return_token_strs:
        token_bytes = call.desk.text.tokenizer.token_bytes
        answer["token_strs"] = [token_bytes(token).decode(errors="replace") for token in ids]
    return web.json_response(answer, headers=call.headers)


async def _encode(call: Call, body: TokenizeBody) -> list[int]:
    if body.prompt is not None and body.messages is not None:
        raise InvalidRequest("prompt and messages exclude each other", "messages")
    if body.prompt is not None:
        return await call.desk.text.encode(
            body.prompt, add_special=body.add_special_tokens is not False
        )
    if body.messages is None:
        raise InvalidRequest("prompt or messages is required", "prompt")
    return await encode_messages(call, body, chat_messages(body.messages))


async def detokenize(call: Call) -> web.StreamResponse:
    body = parse(DetokenizeBody, await call.json())
    card = call.desk.card_for(body.model)
    if body.tokens is None:
        raise InvalidRequest("tokens is required", "tokens")
    check_ids(body.tokens, card.vocab, "tokens")
    answer = {"prompt": call.desk.text.decode(body.tokens)}
    return web.json_response(answer, headers=call.headers)
