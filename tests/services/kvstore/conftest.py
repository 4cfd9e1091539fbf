import pytest

from tests.support.store_world import World


@pytest.fixture
def world() -> World:
    return World()
