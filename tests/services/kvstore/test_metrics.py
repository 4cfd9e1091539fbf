"""What Prometheus reads is what was counted."""

from common.runtime.metrics import new_registry, rendered
from services.kvstore.announcer import Counts
from services.kvstore.metrics import StoreCollector


def test_counts_and_slots_are_read_when_asked_for() -> None:
    registry, counts = new_registry(), Counts()
    slots = {"free": 5, "held": 0}
    StoreCollector(registry, counts, lambda: slots)
    counts.hits += 3
    slots["held"] = 2
    text = rendered(registry).decode()
    assert "twinfleet_kvstore_hits_total 3.0" in text
    assert "twinfleet_kvstore_misses_total 0.0" in text
    assert 'twinfleet_kvstore_slots{state="held"} 2.0' in text
    counts.hits += 1
    assert "twinfleet_kvstore_hits_total 4.0" in rendered(registry).decode()
