"""For every test: fast ones first, and torch computes with one thread.

Torch's threads wait for each other by spinning, so two of them on a machine whose cores are busy
with the cluster under test cost twenty times what one does.
"""

import os

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")

SLOWER = ("sim", "cluster", "slow")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A mistake shows in the first seconds; the order within one speed stays as it was."""
    items.sort(
        key=lambda item: [item.get_closest_marker(mark) is not None for mark in SLOWER][::-1]
    )
