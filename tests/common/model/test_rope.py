import math

import pytest
import torch

from common.model.rope import Rotation


def test_a_pair_is_turned_by_position_times_frequency() -> None:
    rotation = Rotation(torch.tensor([0, 3]), torch.tensor([0.5, 0.1]))
    heads = torch.tensor([1.0, 1.0, 0.0, 0.0]).expand(2, 1, 4)
    turned = rotation(heads)
    assert turned[0, 0].tolist() == [1.0, 1.0, 0.0, 0.0]
    expected = [math.cos(1.5), math.cos(0.3), math.sin(1.5), math.sin(0.3)]
    assert turned[1, 0].tolist() == pytest.approx(expected)
