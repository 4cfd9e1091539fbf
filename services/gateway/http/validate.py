"""From a well-formed body to sampling parameters: what only the model card can decide.

Context overflow is found here, before any worker is asked.
"""

import re

from common.domain.card import ModelCard
from common.domain.errors import ContextOverflow, InvalidRequest
from common.domain.sampling import SamplingParams
from services.gateway.http.prompts import check_ids
from services.gateway.http.schema import ChatBody, CompletionBody, GenerationBody
from services.gateway.text_output import TextOptions

_ID = re.compile(r"[0-9]{1,10}")
_SEEDS = 2**64


def asked_max_tokens(body: ChatBody | CompletionBody) -> tuple[int | None, str]:
    """(tokens, the field that says so); the newer name wins."""
    if isinstance(body, ChatBody) and body.max_completion_tokens is not None:
        return body.max_completion_tokens, "max_completion_tokens"
    return body.max_tokens, "max_tokens"


def asked_logprobs(body: ChatBody | CompletionBody) -> int | None:
    """How many rivals of each token are wanted; None: no log-probabilities at all."""
    if isinstance(body, CompletionBody):
        return body.logprobs
    if body.top_logprobs and not body.logprobs:
        raise InvalidRequest("top_logprobs needs logprobs to be true", "top_logprobs")
    return (body.top_logprobs or 0) if body.logprobs else None


def check_combinations(body: ChatBody | CompletionBody) -> None:
    """Raises InvalidRequest on fields that exclude each other, whatever the model."""
    if body.stream_options is not None and not body.stream:
        raise InvalidRequest("stream_options needs stream to be true", "stream_options")
    usage = body.stream_options is not None and body.stream_options.include_usage
    if body.return_ledger and body.stream and not usage:
        raise InvalidRequest(
            "return_ledger of a stream needs stream_options.include_usage to be true: the ledger"
            " comes in the usage chunk",
            "return_ledger",
        )
    asked_logprobs(body)
    tokens, param = asked_max_tokens(body)
    if isinstance(body, CompletionBody) and body.echo:
        if body.logprobs is not None:
            raise InvalidRequest("logprobs of an echoed prompt are not supported", "logprobs")
        if tokens == 0:
            raise InvalidRequest("echo needs max_tokens of at least 1 on this server", param)
    if tokens == 0:
        raise InvalidRequest(f"{param} must be at least 1", param)


def fit_max_tokens(
    body: ChatBody | CompletionBody, prompt_tokens: int, card: ModelCard, prompt_param: str
) -> int:
    """What was asked for, or all that the context has room for. Raises ContextOverflow."""
    asked, _ = asked_max_tokens(body)
    context = card.context_tokens
    wanted = 1 if asked is None else asked
    if prompt_tokens + wanted > context:
        raise ContextOverflow(
            f"This model's maximum context length is {context} tokens. However, you requested "
            f"{prompt_tokens + wanted} tokens ({prompt_tokens} in the {prompt_param}, {wanted} in "
            f"the completion). Please reduce the length of the {prompt_param} or completion.",
            prompt_param,
        )
    return context - prompt_tokens if asked is None else asked


def sampling_params(
    body: ChatBody | CompletionBody, card: ModelCard, max_tokens: int, seed: int
) -> SamplingParams:
    """`seed` is used if the client gave none."""
    min_tokens = body.min_tokens or 0
    if min_tokens > max_tokens:
        raise InvalidRequest(f"min_tokens exceeds the {max_tokens} tokens allowed", "min_tokens")
    stop_ids = tuple(body.stop_token_ids or ())
    check_ids(stop_ids, card.vocab, "stop_token_ids")
    return SamplingParams(
        seed=seed if body.seed is None else body.seed % _SEEDS,
        max_tokens=max_tokens,
        n=body.n or 1,
        temperature=_given(body.temperature, 1.0),
        top_k=max(0, body.top_k or 0),
        top_p=_given(body.top_p, 1.0),
        min_p=_given(body.min_p, 0.0),
        repetition_penalty=_given(body.repetition_penalty, 1.0),
        presence_penalty=_given(body.presence_penalty, 0.0),
        frequency_penalty=_given(body.frequency_penalty, 0.0),
        logit_bias=_logit_bias(body, card.vocab),
        logprobs=asked_logprobs(body),
        min_tokens=min_tokens,
        stop_token_ids=stop_ids,
        ignore_eos=bool(body.ignore_eos),
    )


def text_options(body: GenerationBody, card: ModelCard) -> TextOptions:
    stop = [body.stop] if isinstance(body.stop, str) else body.stop
    return TextOptions(
        stops=tuple(dict.fromkeys(stop or ())),
        include_stop=bool(body.include_stop_str_in_output),
        skip_special=body.skip_special_tokens is not False,
        eos_ids=frozenset() if body.ignore_eos else frozenset(card.eos_token_ids),
        stop_ids=frozenset(body.stop_token_ids or ()),
        min_tokens=body.min_tokens or 0,
        with_ids=bool(body.return_token_ids),
    )


def _given(value: float | None, default: float) -> float:
    return default if value is None else float(value)


def _logit_bias(body: GenerationBody, vocab: int) -> tuple[tuple[int, float], ...]:
    biases: dict[int, float] = {}
    for key, value in (body.logit_bias or {}).items():
        if not _ID.fullmatch(key):
            raise InvalidRequest(f"logit_bias: {key[:20]!r} is not a token id", "logit_bias")
        biases[int(key)] = float(value)
    check_ids(list(biases), vocab, "logit_bias")
    return tuple(sorted(biases.items()))
