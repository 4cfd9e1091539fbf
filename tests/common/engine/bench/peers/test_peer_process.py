import os
import sys
from pathlib import Path

import pytest

from common.engine.bench.peers.cases import Case
from common.engine.bench.peers.peer_process import PeerFailed, PeerOrder, PeerProcess

BARE = Path(os.path.realpath(sys.executable))
"""An interpreter without our packages."""


def order(model: str = "m", **options: str) -> PeerOrder:
    adapter = "tests.support.fake_peer:open_engine"
    return PeerOrder("fake", BARE, adapter, Path(model), 1, options)


def test_another_interpreter_with_the_standard_library_alone_is_enough() -> None:
    with PeerProcess(order()) as peer:
        assert peer.about == "fake 1.0"
        rate = peer.run(Case("streams", 2, output=3), 1, 100)
        assert rate is not None
        assert rate > 0
        assert not peer.ended
    assert peer.ended


def test_options_arrive_and_what_it_cannot_do_is_none() -> None:
    with PeerProcess(order(caches="no")) as peer:
        assert peer.run(Case("warm", 8), 1, 100) is None


def test_an_engine_that_does_not_open_is_an_error_not_a_hang(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(PeerFailed, match="fake ended with 1"):
        PeerProcess(order("broken"))
    assert "no such model" in capfd.readouterr().err


def test_one_that_fails_on_the_way_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with PeerProcess(order()) as peer:
        with pytest.raises(PeerFailed):
            peer.run(Case("nonsense", 2), 1, vocab=0)
        assert peer.ended
    assert "Error" in capfd.readouterr().err
