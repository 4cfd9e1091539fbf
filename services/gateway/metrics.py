"""The gateway's numbers. Latencies are seconds, measured from the arrival of the HTTP request."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from common.runtime.metrics import LATENCY_BUCKETS_S, TOKEN_LATENCY_BUCKETS_S

PREFIX = "twinfleet_gateway_"


class GatewayMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.requests = Counter(
            PREFIX + "requests",
            "HTTP requests that generate, by how they ended: finished, failed, cancelled, "
            "invalid (the client's fault) or refused (nothing could be served).",
            ("endpoint", "outcome"),
            registry=registry,
        )
        self.running = Gauge(
            PREFIX + "requests_running", "Streams that have not ended.", registry=registry
        )
        self.prompt_tokens = self._counter("prompt_tokens", "Prompt tokens submitted.")
        self.output_tokens = self._counter("output_tokens", "Tokens received from workers.")
        self.cached_tokens = self._counter(
            "cached_tokens", "Prompt tokens that nobody had to compute."
        )
        self.cancelled = self._counter("cancelled", "Attempts this gateway cancelled.")
        self.disconnects = self._counter("disconnects", "Clients that left before the end.")
        self.time_to_first_token = self._seconds(
            "time_to_first_token_seconds", "Arrival to first token.", LATENCY_BUCKETS_S
        )
        self.inter_token = self._seconds(
            "inter_token_latency_seconds", "Gap between tokens.", TOKEN_LATENCY_BUCKETS_S
        )
        self.end_to_end = self._seconds(
            "request_duration_seconds", "Arrival to last token.", LATENCY_BUCKETS_S
        )
        self.unexpected = Counter(
            PREFIX + "messages_unexpected",
            "Messages that no gateway should receive.",
            ("kind",),
            registry=registry,
        )

    def watch_running(self, count: Callable[[], int]) -> None:
        self.running.set_function(lambda: float(count()))

    def _counter(self, name: str, what: str) -> Counter:
        return Counter(PREFIX + name, what, registry=self.registry)

    def _seconds(self, name: str, what: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(PREFIX + name, what, buckets=buckets, registry=self.registry)
