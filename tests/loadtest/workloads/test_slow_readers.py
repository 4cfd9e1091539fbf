import pytest
from pydantic import ValidationError

from tests.support.workload_examples import CHAT, made, taken


def test_its_share_reads_slowly_and_the_rest_as_fast_as_it_can() -> None:
    workload = made("slow_readers", of=CHAT, share=0.25, bytes_s=64)
    speeds = [turn.read_bytes_s for session in taken(workload, 500) for turn in session.turns]
    assert set(speeds) == {0, 64}
    assert speeds.count(64) == pytest.approx(500, abs=80)


@pytest.mark.parametrize("bytes_s", [0, -1])
def test_nobody_reads_nothing(bytes_s: float) -> None:
    with pytest.raises(ValidationError, match="bytes_s"):
        made("slow_readers", of=CHAT, share=1, bytes_s=bytes_s)
