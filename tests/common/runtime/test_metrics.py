from prometheus_client import Counter

from common.runtime import metrics


def test_a_registry_renders_what_was_registered_in_it() -> None:
    registry = metrics.new_registry()
    Counter("twinfleet_things", "Things seen.", registry=registry).inc(3)
    assert b"twinfleet_things_total 3.0" in metrics.rendered(registry)


def test_two_apps_in_one_interpreter_do_not_share_metrics() -> None:
    first, second = metrics.new_registry(), metrics.new_registry()
    Counter("twinfleet_things", "Things seen.", registry=first).inc()
    Counter("twinfleet_things", "Things seen.", registry=second)
    assert b"twinfleet_things_total 1.0" in metrics.rendered(first)
    assert b"twinfleet_things_total 0.0" in metrics.rendered(second)


def test_a_registry_shows_the_process_itself() -> None:
    assert b"twinfleet_process_resident_memory_bytes" in metrics.rendered(metrics.new_registry())


def test_buckets_rise() -> None:
    for buckets in (
        metrics.LATENCY_BUCKETS_S,
        metrics.TOKEN_LATENCY_BUCKETS_S,
        metrics.TOKEN_COUNT_BUCKETS,
        metrics.BYTES_BUCKETS,
    ):
        assert list(buckets) == sorted(set(buckets))
