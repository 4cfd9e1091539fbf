"""GET /v1/models and /v1/models/{id}: the one model that the cluster serves now, if any."""

from aiohttp import web

from common.domain.card import ModelCard
from services.gateway.http.answer import JsonObject
from services.gateway.http.call import Call, Desk


async def list_models(call: Call) -> web.StreamResponse:
    card = call.desk.cluster.card
    data = [] if card is None else [_describe(call.desk, card)]
    return web.json_response({"object": "list", "data": data}, headers=call.headers)


async def get_model(call: Call) -> web.StreamResponse:
    card = call.desk.card_for(call.tail)
    return web.json_response(_describe(call.desk, card), headers=call.headers)


def _describe(desk: Desk, card: ModelCard) -> JsonObject:
    return {
        "id": card.model,
        "object": "model",
        "created": desk.started_at,
        "owned_by": "twinfleet",
        "root": card.model,
        "parent": None,
        "max_model_len": card.context_tokens,
        "permission": [],
    }
