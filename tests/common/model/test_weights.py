import numpy as np
import pytest
import torch

from common.model.weights import Weights


@pytest.fixture
def arrays() -> dict[str, np.ndarray]:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    array.flags.writeable = False
    return {"a.weight": array}


def test_a_tensor_on_a_cpu_is_the_read_only_memory_itself(arrays: dict[str, np.ndarray]) -> None:
    tensor = Weights(arrays, torch.device("cpu")).tensor("a.weight")
    assert tensor.data_ptr() == arrays["a.weight"].ctypes.data
    assert tensor.tolist() == arrays["a.weight"].tolist()


def test_only_an_optional_tensor_may_be_absent(arrays: dict[str, np.ndarray]) -> None:
    weights = Weights(arrays, torch.device("cpu"))
    assert weights.optional("a.bias") is None
    assert weights.optional("a.weight") is not None
    with pytest.raises(KeyError, match=r"a\.bias"):
        weights.tensor("a.bias")
