import pytest
import torch

from common.domain.block import LayoutTag
from common.domain.errors import ServingError
from common.engine.torch_pool import TorchPool, host_face

LAYOUT = LayoutTag("float32", 16, layers=2, head_start=0, head_stop=3, head_dim=4)
SLOTS = 5


@pytest.mark.parametrize("padding", [0, 64])
def test_the_host_face_is_the_memory(padding: int) -> None:
    slot_bytes = LAYOUT.block_bytes + padding
    memory = bytearray(SLOTS * slot_bytes)
    face = host_face(LAYOUT, memoryview(memory), SLOTS, slot_bytes)
    assert face.shape == (SLOTS, 2, 2, 3, 16, 4)
    face[3] = torch.arange(LAYOUT.block_bytes // 4, dtype=torch.float32).view(LAYOUT.shape)
    start = 3 * slot_bytes
    written = memoryview(memory)[start : start + LAYOUT.block_bytes].cast("f").tolist()
    assert written == list(range(LAYOUT.block_bytes // 4))
    assert not any(memory[:start])
    assert not any(memory[start + LAYOUT.block_bytes :])


@pytest.mark.parametrize(
    ("memory", "slot_bytes"),
    [
        (bytearray(SLOTS * LAYOUT.block_bytes), LAYOUT.block_bytes - 4),
        (bytearray(SLOTS * LAYOUT.block_bytes * 2), LAYOUT.block_bytes + 2),
        (bytearray(SLOTS * LAYOUT.block_bytes - 1), LAYOUT.block_bytes),
        (bytes(SLOTS * LAYOUT.block_bytes), LAYOUT.block_bytes),
    ],
    ids=["short slots", "odd slots", "short memory", "read-only"],
)
def test_memory_that_cannot_be_a_pool_is_refused(
    memory: bytes | bytearray, slot_bytes: int
) -> None:
    with pytest.raises(ServingError):
        host_face(LAYOUT, memoryview(memory), SLOTS, slot_bytes)


def numbered() -> torch.Tensor:
    return torch.arange(SLOTS, dtype=torch.float32).view(SLOTS, 1, 1).repeat(1, 2, 3)


def test_a_cpu_computes_in_the_host_face() -> None:
    host = numbered()
    pool = TorchPool.on(torch.device("cpu"), host)
    assert pool.tensor is host
    pool.to_host([1])
    pool.to_device([1])
    assert torch.equal(host, numbered())


def test_a_copied_block_is_its_own() -> None:
    pool = TorchPool.on(torch.device("cpu"), numbered())
    pool.copy_block(4, 1)
    pool.tensor[4] = 9.0
    assert pool.tensor[:, 0, 0].tolist() == [0.0, 4.0, 2.0, 3.0, 9.0]


def test_a_device_exchanges_only_the_slots_it_is_told() -> None:
    """Two tensors of one machine stand for host and device."""
    host, device = numbered(), -numbered()
    pool = TorchPool(host, device)
    pool.to_host([3, 1])
    assert host[:, 0, 0].tolist() == [0.0, -1.0, 2.0, -3.0, 4.0]
    host[2] = 7.0
    pool.to_device([2])
    pool.to_device([])
    assert device[:, 0, 0].tolist() == [0.0, -1.0, 7.0, -3.0, -4.0]
    pool.copy_block(2, 0)
    assert host[0, 0, 0] == 0.0
