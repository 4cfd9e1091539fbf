import pytest
import torch

from common.engine.bench.torch_peak import peak_flops


def test_operations_of_the_product_in_the_best_time(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 4.0, 10.0, 12.0, 20.0, 25.0, 30.0, 33.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(times))
    multiplied = []
    monkeypatch.setattr(torch, "mm", lambda a, b: multiplied.append((a.shape, b.shape)))
    threads = torch.get_num_threads()
    assert peak_flops(threads) == 2 * 2048**3 / 2.0
    assert multiplied == [((2048, 2048), (2048, 2048))] * 4
