"""Request bodies: types and bounds of every field that we understand.

A null is as good as a missing field. Numbers are strict (no strings, no booleans), bounded and
finite. Fields that we do not know are ignored; those that we know and cannot do are refused in
unsupported.py.
"""

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from common.domain.errors import InvalidRequest

INT32_MAX = 2**31 - 1
MAX_CHOICES = 8
MAX_STOPS = 16
MAX_STOP_CHARACTERS = 1024
MAX_BIASES = 1024
MAX_STOP_IDS = 64
MAX_TOP_LOGPROBS = 20

_Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
_Integer = Annotated[int, Field(strict=True)]
_Flag = Annotated[bool, Field(strict=True)]
_Text = Annotated[str, Field(strict=True)]
_StopText = Annotated[str, Field(strict=True, min_length=1, max_length=MAX_STOP_CHARACTERS)]
_TokenId = Annotated[int, Field(strict=True, ge=0, le=INT32_MAX)]
_Tokens = Annotated[int, Field(strict=True, ge=0, le=INT32_MAX)]
_Penalty = Annotated[_Finite, Field(ge=-2, le=2)]
_Share = Annotated[_Finite, Field(ge=0, le=1)]
_TopLogprobs = Annotated[_Integer, Field(ge=0, le=MAX_TOP_LOGPROBS)]


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())


class StreamOptions(_Body):
    include_usage: _Flag | None = None
    continuous_usage_stats: _Flag | None = None


class GenerationBody(_Body):
    """What chat and completions have in common."""

    model: _Text | None = None
    max_tokens: _Tokens | None = None
    n: Annotated[_Integer, Field(ge=1, le=MAX_CHOICES)] | None = None
    stop: _StopText | Annotated[list[_StopText], Field(max_length=MAX_STOPS)] | None = None
    stream: _Flag | None = None
    stream_options: StreamOptions | None = None
    seed: Annotated[_Integer, Field(ge=-(2**63), lt=2**63)] | None = None
    temperature: Annotated[_Finite, Field(ge=0, le=2)] | None = None
    top_p: Annotated[_Finite, Field(gt=0, le=1)] | None = None
    top_k: Annotated[_Integer, Field(ge=-1, le=INT32_MAX)] | None = None
    min_p: _Share | None = None
    repetition_penalty: Annotated[_Finite, Field(gt=0, le=10)] | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    logit_bias: (
        Annotated[
            dict[str, Annotated[_Finite, Field(ge=-100, le=100)]], Field(max_length=MAX_BIASES)
        ]
        | None
    ) = None
    min_tokens: _Tokens | None = None
    ignore_eos: _Flag | None = None
    stop_token_ids: Annotated[list[_TokenId], Field(max_length=MAX_STOP_IDS)] | None = None
    skip_special_tokens: _Flag | None = None
    include_stop_str_in_output: _Flag | None = None
    return_token_ids: _Flag | None = None
    return_ledger: _Flag | None = None
    priority: Annotated[_Integer, Field(ge=-INT32_MAX, le=INT32_MAX)] | None = None
    cache_salt: Annotated[_Text, Field(min_length=1, max_length=128)] | None = None
    request_id: _Text | None = None
    # Understood, and of no consequence here.
    user: object = None
    metadata: object = None


class Templated(_Body):
    """How messages become a prompt."""

    messages: list[dict[str, object]] | None = None
    add_generation_prompt: _Flag | None = None
    continue_final_message: _Flag | None = None
    chat_template_kwargs: dict[str, object] | None = None
    reasoning_effort: _Text | None = None


class ChatBody(GenerationBody, Templated):
    max_completion_tokens: _Tokens | None = None
    logprobs: _Flag | None = None
    top_logprobs: _TopLogprobs | None = None


class CompletionBody(GenerationBody):
    prompt: object = None
    """A text, texts, token ids or lists of those: told apart in prompts.py."""
    echo: _Flag | None = None
    logprobs: _TopLogprobs | None = None


class TokenizeBody(Templated):
    model: _Text | None = None
    prompt: _Text | None = None
    add_special_tokens: _Flag | None = None
    return_token_strs: _Flag | None = None


class DetokenizeBody(_Body):
    model: _Text | None = None
    tokens: list[_TokenId] | None = None


B = TypeVar("B", bound=_Body)


def parse(kind: type[B], value: dict[str, object]) -> B:
    """Raises InvalidRequest that names the first wrong field."""
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        # Every branch of a union complains; the one that got farthest was meant.
        head = errors[0]["loc"][0]
        first = max((e for e in errors if e["loc"][0] == head), key=lambda e: len(e["loc"]))
        param = _param(first["loc"], set(kind.model_fields))
        raise InvalidRequest(f"{param}: {first['msg']}", param) from None


def _param(location: tuple[int | str, ...], fields: set[str]) -> str:
    """`messages[0].role` for ("messages", 0, "role"). What pydantic adds to name the branch of a
    union is no part of the request."""
    head = str(location[0])
    rest = "".join(f"[{part}]" for part in location[1:] if isinstance(part, int))
    if head == "stream_options" and len(location) > 1:
        return f"{head}.{location[1]}"
    return head + rest if head in fields else head
