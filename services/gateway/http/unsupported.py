"""Fields that other servers understand and we do not: refused by name, never silently dropped.

A value that asks for nothing (null, an empty list, the default) is tolerated, because client
libraries send those unasked.
"""

from collections.abc import Callable, Iterable

from common.domain.errors import InvalidRequest

Json = dict[str, object]
_EMPTY: tuple[object, ...] = (None, False, "", [], {})
_Harmless = Callable[[object], bool]


def _only(*values: object) -> _Harmless:
    # `0 == False`, and a 0 may well ask for something: compare types too.
    return lambda value: any(type(value) is type(v) and value == v for v in values)


_nothing = _only(*_EMPTY)

_FIELDS: dict[str, _Harmless] = {
    "tools": _nothing,
    "tool_choice": _only(*_EMPTY, "none", "auto"),
    "functions": _nothing,
    "function_call": _only(*_EMPTY, "none", "auto"),
    "response_format": _only(*_EMPTY, {"type": "text"}),
    "structured_outputs": _nothing,
    "suffix": _nothing,
    "prompt_embeds": _nothing,
    "prompt_logprobs": _only(None),
    "modalities": _only(*_EMPTY, ["text"]),
    "audio": _nothing,
    "prediction": _nothing,
    "bad_words": _nothing,
    "allowed_token_ids": _nothing,
    "logprob_token_ids": _nothing,
    "logits_processors": _nothing,
    "use_beam_search": _nothing,
    "length_penalty": _only(None, 1, 1.0),
    "truncate_prompt_tokens": _only(None),
    "thinking_token_budget": _only(None),
    "web_search_options": _nothing,
    "kv_transfer_params": _nothing,
}


def refuse_unsupported(body: Json) -> None:
    """Raises InvalidRequest with the first such field as param."""
    for name, value in body.items():
        if name == "best_of":
            _check_best_of(body)
            continue
        harmless = _nothing if name.startswith("guided_") else _FIELDS.get(name)
        if harmless is not None and not harmless(value):
            raise InvalidRequest(f"{name} is not supported by this server", name)


def unknown_fields(body: Json, understood: Iterable[str]) -> list[str]:
    """Names that we have never heard of, cut short: they come from a client."""
    known = {*understood, *_FIELDS, "best_of"}
    return sorted(name[:40] for name in body if name not in known)[:20]


def _check_best_of(body: Json) -> None:
    """As many drawn as returned is no choosing at all."""
    best_of = body["best_of"]
    if best_of is not None and best_of != (body.get("n") or 1):
        raise InvalidRequest("best_of must equal n on this server", "best_of")
