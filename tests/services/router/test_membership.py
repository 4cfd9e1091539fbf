"""Who joins, who is refused and why, who counts as alive."""

from dataclasses import replace

import pytest

from common.wire.messages.cluster import Hello, Load, Pulse
from services.router.membership import (
    DEAD_AFTER_S,
    SUSPECT_AFTER_S,
    Member,
    Membership,
    Standing,
)
from tests.support.router_world import CARD, hello, peer, process


def joined(*hellos: Hello) -> Membership:
    members = Membership()
    for message in hellos:
        assert members.hello(message, 0.0).accepted
    return members


def member(members: Membership, name: str, incarnation: int = 1) -> Member:
    found = members.get(process(name, incarnation))
    assert found is not None
    return found


def test_the_first_worker_s_card_is_served_with_the_smallest_context_of_all() -> None:
    members = joined(hello("decode-0"), hello("gateway-0"))
    assert members.card == CARD
    small = replace(CARD, context_tokens=100)
    assert members.hello(hello("prefill-0", card=small), 0.0).accepted
    assert members.card == small
    members.remove(process("prefill-0"))
    assert members.card == CARD


@pytest.mark.parametrize(
    "field",
    ["model", "weights_digest", "tokenizer_digest", "arithmetic", "block_tokens", "vocab"],
)
def test_a_worker_with_another_card_is_refused_by_the_name_of_the_difference(field: str) -> None:
    members = joined(hello("decode-0"))
    other = replace(CARD, **{field: 64 if field in ("block_tokens", "vocab") else "other"})
    admission = members.hello(hello("prefill-0", card=other), 0.0)
    assert not admission.accepted
    assert f"differs in {field}" in admission.reason
    assert members.get(process("prefill-0")) is None


def test_the_card_is_released_with_the_last_worker() -> None:
    members = joined(hello("decode-0"), hello("prefill-0"), hello("gateway-0"), hello("kvstore-0"))
    other = replace(CARD, weights_digest="other")
    members.remove(process("decode-0"))
    assert not members.hello(hello("decode-1", card=other), 0.0).accepted
    members.remove(process("prefill-0"))
    assert members.card is None
    assert members.hello(hello("decode-1", card=other), 0.0).accepted
    assert members.card == other


def test_others_than_workers_need_no_card() -> None:
    members = joined(hello("gateway-0"), hello("kvstore-0"))
    assert members.card is None
    assert not members.hello(hello("decode-0", card=None), 0.0).accepted


def test_a_router_or_another_protocol_does_not_join() -> None:
    members = Membership()
    assert "router" in members.hello(hello("router-0"), 0.0).reason
    assert "protocol 9" in members.hello(replace(hello("decode-0"), protocol=9), 0.0).reason
    assert members.all() == []


def test_a_new_life_replaces_the_old_one() -> None:
    members = joined(hello("decode-0"))
    admission = members.hello(hello("decode-0", 2), 1.0)
    assert (admission.accepted, admission.replaced) == (True, process("decode-0"))
    assert members.get(process("decode-0")) is None
    assert member(members, "decode-0", 2).heard_at == 1.0


def test_a_new_life_of_the_only_worker_may_bring_another_card() -> None:
    members = joined(hello("decode-0"))
    other = replace(CARD, weights_digest="other")
    assert members.hello(hello("decode-0", 2, card=other), 0.0).accepted
    assert members.card == other


def test_a_refused_new_life_still_ends_the_old_one() -> None:
    members = joined(hello("decode-0"), hello("decode-1"))
    admission = members.hello(hello("decode-0", 2, card=replace(CARD, vocab=1)), 0.0)
    assert (admission.accepted, admission.replaced) == (False, process("decode-0"))
    assert members.get(process("decode-0")) is None


def test_the_same_life_may_say_hello_again() -> None:
    members = joined(hello("decode-0"))
    member(members, "decode-0").linked = True
    admission = members.hello(hello("decode-0", blocks=5), 7.0)
    assert (admission.accepted, admission.replaced) == (True, None)
    assert member(members, "decode-0").linked
    assert member(members, "decode-0").load.blocks_total == 5


def test_silence_makes_suspect_then_dead_and_a_pulse_revives() -> None:
    members = joined(hello("decode-0"), hello("gateway-0"))
    worker = member(members, "decode-0")
    worker.linked = True
    assert worker.standing(SUSPECT_AFTER_S - 0.01) is Standing.ACTIVE
    assert worker.standing(SUSPECT_AFTER_S) is Standing.SUSPECT
    members.pulse(Pulse(peer("decode-0"), 12, Load(running=3)), SUSPECT_AFTER_S)
    assert worker.standing(SUSPECT_AFTER_S) is Standing.ACTIVE
    assert (worker.steps, worker.load.running) == (12, 3)
    assert members.dead(DEAD_AFTER_S - 0.01) == []
    assert members.dead(DEAD_AFTER_S) == [process("gateway-0")]
    assert members.dead(SUSPECT_AFTER_S + DEAD_AFTER_S) == [
        process("decode-0"),
        process("gateway-0"),
    ]


def test_the_pulse_of_an_earlier_life_is_nobody_s() -> None:
    members = joined(hello("decode-0", 2))
    assert members.pulse(Pulse(peer("decode-0", 1), 1), 9.0) is None
    assert member(members, "decode-0", 2).heard_at == 0.0


def test_a_worker_gets_no_work_before_our_connection_stands() -> None:
    members = joined(hello("decode-0"), hello("gateway-0"))
    assert member(members, "decode-0").standing(0.0) is Standing.CONNECTING
    assert member(members, "gateway-0").standing(0.0) is Standing.ACTIVE


def test_the_view_counts_workers_that_do_not_drain() -> None:
    members = joined(hello("decode-0"), hello("decode-1"), hello("prefill-0"))
    member(members, "decode-0").draining = True
    view = members.view(5)
    assert (view.card, view.prefill, view.decode, view.queued) == (CARD, 1, 1, 5)
    assert members.can_place
    member(members, "decode-1").draining = True
    assert not members.can_place
    assert member(members, "decode-1").standing(0.0) is Standing.DRAINING
