"""A peer's reference names one life of it."""

from dataclasses import replace

from common.domain.ids import Incarnation, ProcessId, ProcessName
from common.domain.peer import PeerRef, Role


def test_its_identity_is_name_and_life_and_not_where_it_listens() -> None:
    peer = PeerRef(ProcessName("decode-0"), Incarnation(4), Role.DECODE, "ipc://a")
    assert peer.id == ProcessId(ProcessName("decode-0"), Incarnation(4))
    assert replace(peer, address="ipc://b").id == peer.id
    assert replace(peer, incarnation=Incarnation(5)).id != peer.id


def test_numbers_of_roles_are_never_reused() -> None:
    assert [(role.name, role.value) for role in Role] == [
        ("GATEWAY", 1),
        ("ROUTER", 2),
        ("PREFILL", 3),
        ("DECODE", 4),
        ("KVSTORE", 5),
    ]
