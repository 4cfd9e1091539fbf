"""The gateway's numbers as Prometheus reads them."""

from common.runtime.metrics import new_registry, rendered
from services.gateway.metrics import PREFIX, GatewayMetrics


def test_every_name_carries_the_prefix_and_every_number_its_help() -> None:
    registry = new_registry()
    metrics = GatewayMetrics(registry)
    metrics.requests.labels("chat", "finished").inc()
    ours = [family for family in registry.collect() if "process" not in family.name]
    assert len(ours) == 11
    assert all(family.name.startswith(PREFIX) for family in ours)
    assert all(family.documentation.endswith(".") for family in ours)
    assert b"twinfleet_gateway_requests_total" in rendered(registry)


def test_running_is_asked_when_it_is_read() -> None:
    registry = new_registry()
    live: list[int] = []
    GatewayMetrics(registry).watch_running(live.__len__)
    live += [1, 2]
    assert registry.get_sample_value("twinfleet_gateway_requests_running") == 2
