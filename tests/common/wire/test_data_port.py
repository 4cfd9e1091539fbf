"""The data sockets against peers that misbehave."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from common.domain.errors import ProtocolError
from common.wire.data import BlockReply, BlockRequest, encode_reply, encode_request
from common.wire.data_port import REPLY_BYTES, DataDialer, DataServer

BLOCK = b"k" * 100_000
REQUEST = BlockRequest(1, 7, len(BLOCK), (0,), (0,))


@pytest.fixture
def server() -> Iterator[DataServer]:
    views = [memoryview(BLOCK), None]
    server = DataServer("tcp://127.0.0.1:*", lambda request: [views[s] for s in request.slots])
    yield server
    server.close()


@pytest.fixture
def dialer() -> Iterator[DataDialer]:
    dialer = DataDialer(0.3)
    yield dialer
    dialer.close()


def receive_one(dialer: DataDialer, address: str, request: BlockRequest) -> BlockReply:
    client = dialer.dial(address)
    target = memoryview(bytearray(len(BLOCK)))
    try:
        client.ask(request)
        return client.receive({request.number: [target] * len(request.slots)})
    finally:
        client.close()


def test_found_and_missing_blocks_are_told_apart(server: DataServer, dialer: DataDialer) -> None:
    request = BlockRequest(3, 7, len(BLOCK), (1, 0, 1), (0, 0, 0))
    assert receive_one(dialer, server.address, request) == BlockReply(3, (False, True, False))


@pytest.mark.parametrize(
    "frames",
    [
        [b"noise"],
        [encode_request(REQUEST), b"more"],
        [encode_request(BlockRequest(1, 7, REPLY_BYTES, (0, 0), (0, 0)))],
    ],
    ids=["no request", "two frames", "asks for too much"],
)
def test_a_bad_request_costs_its_sender_the_connection_and_nobody_else(
    server: DataServer, dialer: DataDialer, frames: list[bytes]
) -> None:
    with zmq.Context() as context, context.socket(zmq.DEALER) as bad:
        bad.linger = 0
        bad.connect(server.address)
        bad.send_multipart(frames)
        bad.send(encode_request(REQUEST))
        assert receive_one(dialer, server.address, REQUEST).found == (True,)
        assert bad.poll(100) == 0
    assert server.bad_frames == 1


def test_a_reader_that_leaves_without_its_answer_is_forgotten(
    server: DataServer, dialer: DataDialer
) -> None:
    client = dialer.dial(server.address)
    client.ask(REQUEST)
    client.close()
    assert receive_one(dialer, server.address, REQUEST).found == (True,)


@pytest.mark.parametrize(
    ("frames", "complaint"),
    [
        ([b"noise"], "block reply"),
        ([encode_reply(BlockReply(9, (True,))), BLOCK], "nobody asked"),
        ([encode_reply(BlockReply(1, (True, True))), BLOCK, BLOCK], "nobody asked"),
        ([encode_reply(BlockReply(1, (True,)))], "fewer"),
        ([encode_reply(BlockReply(1, (True,))), BLOCK, BLOCK], "more"),
        ([encode_reply(BlockReply(1, (True,))), BLOCK[:-1]], "length"),
        ([encode_reply(BlockReply(1, (True,))), BLOCK + b"x"], "length"),
    ],
)
def test_a_bad_answer_is_a_protocol_error(
    dialer: DataDialer, frames: list[bytes], complaint: str
) -> None:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as bad:
        bad.linger = 0
        bad.bind("tcp://127.0.0.1:*")

        def answer() -> None:
            identity, _ = bad.recv_multipart()
            bad.send_multipart([identity, *frames])

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ProtocolError, match=complaint):
            receive_one(dialer, bad.getsockopt_string(zmq.LAST_ENDPOINT), REQUEST)
        thread.join()


def test_a_holder_that_does_not_answer_is_a_timeout(dialer: DataDialer) -> None:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as silent:
        silent.bind("tcp://127.0.0.1:*")
        with pytest.raises(TimeoutError, match="no progress"):
            receive_one(dialer, silent.getsockopt_string(zmq.LAST_ENDPOINT), REQUEST)


def test_a_holder_that_is_not_there_is_a_timeout(dialer: DataDialer, tmp_path: Path) -> None:
    with pytest.raises(TimeoutError, match="reached"):
        receive_one(dialer, f"ipc://{tmp_path}/nobody", REQUEST)


def test_an_address_that_is_none_is_a_protocol_error(dialer: DataDialer) -> None:
    with pytest.raises(ProtocolError, match="cannot dial"):
        dialer.dial("")


def test_a_taken_address_is_an_os_error(server: DataServer) -> None:
    with pytest.raises(OSError, match="cannot bind"):
        DataServer(server.address, lambda request: [])
