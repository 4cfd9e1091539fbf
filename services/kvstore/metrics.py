"""The store's numbers for Prometheus, read from its counts when it is asked."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from services.kvstore.announcer import Counts

PREFIX = "twinfleet_kvstore_"


class StoreCollector(Collector):
    """One counter for each of Counts, and the slots by state."""

    def __init__(
        self, registry: CollectorRegistry, counts: Counts, slots: Callable[[], Mapping[str, int]]
    ) -> None:
        self._counts = counts
        self._slots = slots
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        for column in fields(self._counts):
            text = column.name.replace("_", " ").capitalize() + " since the start."
            value = getattr(self._counts, column.name)
            yield CounterMetricFamily(PREFIX + column.name, text, value=value)
        gauge = GaugeMetricFamily(
            PREFIX + "slots", "Slots of the arena by state.", labels=["state"]
        )
        for state, number in self._slots().items():
            gauge.add_metric([state], number)
        yield gauge
