from common.engine.bench.sizes import FULL, QUICK, Sizes
from tests.support.bench_rig import TINY


def test_the_pool_holds_the_largest_decode_batch() -> None:
    assert FULL.slots(32) >= 32 * 2048 // 32


def test_the_pool_holds_a_long_prompt_beside_streams() -> None:
    sizes = Sizes(batches=(1,), contexts=(1,), streams=(1,), verify_batches=(1,))
    assert sizes.slots(32) >= 2048 // 32 + 4 * (64 + 40 + 1) // 32


def test_quick_is_smaller_in_everything() -> None:
    assert QUICK.slots(32) < FULL.slots(32)
    assert QUICK.steps.seconds < FULL.steps.seconds
    assert TINY.slots(32) <= 64
