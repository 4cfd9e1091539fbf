"""Peers, cards and submits for tests of the router."""

from dataclasses import replace

from common.domain.card import ModelCard
from common.domain.ids import AttemptKey, Incarnation, ProcessId, ProcessName, RequestId, UnitHash
from common.domain.peer import PeerRef, Role
from common.domain.sampling import SamplingParams
from common.kv.hashing import chain_root, extend_chain
from common.wire.columns import pack_hashes, pack_i32
from common.wire.messages.cluster import Hello, Load
from common.wire.messages.submit import Submit

BLOCK_TOKENS = 32
CARD = ModelCard(
    model="tiny",
    weights_digest="w" * 64,
    tokenizer_digest="t" * 64,
    arithmetic="fp32",
    block_tokens=BLOCK_TOKENS,
    context_tokens=4_096,
    vocab=512,
    eos_token_ids=(2,),
)
ROOT = chain_root(CARD.weights_digest)
POOL_BLOCKS = 1_000


def process(name: str, incarnation: int = 1) -> ProcessId:
    return ProcessId(ProcessName(name), Incarnation(incarnation))


def peer(name: str, incarnation: int = 1) -> PeerRef:
    """The role is read from the name: decode-0, gateway-1."""
    role = Role[name.split("-")[0].upper()]
    me = process(name, incarnation)
    return PeerRef(me.name, me.incarnation, role, f"mem://{name}")


def hello(
    name: str, incarnation: int = 1, blocks: int = POOL_BLOCKS, card: ModelCard | None = CARD
) -> Hello:
    me = peer(name, incarnation)
    works = me.role in (Role.PREFILL, Role.DECODE)
    return Hello(me, card if works else None, Load(blocks_total=blocks if works else 0))


def key(request: str, attempt: int = 1) -> AttemptKey:
    return AttemptKey(RequestId(request), attempt)


def prompt_of(blocks: int, label: int = 7, tail: int = 0) -> list[int]:
    """Whole blocks of tokens that differ from those of every other label, and a tail."""
    return [label] * (blocks * BLOCK_TOKENS) + [label] * tail


def units_of(prompt: list[int]) -> list[UnitHash]:
    return extend_chain(ROOT, prompt)


def submit(
    request: str, prompt: list[int] | None = None, attempt: int = 1, **changes: object
) -> Submit:
    """`changes` are fields of the sampling parameters or of the submit."""
    tokens = prompt_of(2, tail=5) if prompt is None else prompt
    message = Submit(
        key(request, attempt),
        pack_i32(tokens),
        pack_hashes(units_of(tokens)),
        SamplingParams(seed=1, max_tokens=16),
    )
    for name, value in changes.items():
        if hasattr(message, name):
            message = replace(message, **{name: value})
        else:
            message = replace(message, sampling=replace(message.sampling, **{name: value}))
    return message
