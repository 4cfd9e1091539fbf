"""The router's numbers."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

PREFIX = "twinfleet_router_"
PLAN_BUCKETS_S = (
    0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1,
)  # fmt: skip


class RouterMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.attempts = Counter(
            PREFIX + "attempts",
            "Attempts by outcome: ended, cancelled, or the error code they failed with.",
            ("outcome",),
            registry=registry,
        )
        self.decisions = Counter(
            PREFIX + "decisions",
            "Placements by policy and by who computes the prompt: prefill, or the writer itself.",
            ("policy", "computes"),
            registry=registry,
        )
        self.refused = self._counter("refused", "Assignments that a worker would not take.")
        self.prompt_tokens = self._counter("prompt_tokens", "Prompt tokens of placed attempts.")
        self.matched_tokens = self._counter(
            "matched_tokens", "Those that whoever computes the prompt is believed to have cached."
        )
        self.event_gaps = self._counter("event_gaps", "Gaps in the KV events of a process.")
        self.workers_lost = self._counter("workers_lost", "Workers that died or fell silent.")
        self.peers_dropped = self._counter(
            "peers_dropped", "Peers cut off because what they sent made no sense."
        )
        self.unexpected = Counter(
            PREFIX + "messages_unexpected",
            "Messages that no router should receive, or from nobody it knows.",
            ("kind",),
            registry=registry,
        )
        self.plan_seconds = Histogram(
            PREFIX + "plan_seconds",
            "Time to look up the index and choose workers.",
            buckets=PLAN_BUCKETS_S,
            registry=registry,
        )

    def watch(self, name: str, what: str, value: Callable[[], int]) -> None:
        gauge = Gauge(PREFIX + name, what, registry=self.registry)
        gauge.set_function(lambda: float(value()))

    def _counter(self, name: str, what: str) -> Counter:
        return Counter(PREFIX + name, what, registry=self.registry)
