"""What a worker tells Prometheus."""

from collections.abc import Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from common.engine.host import EngineHost
from common.engine.job import Done, Dropped, Emitted, EngineEvent, FirstDrawn
from common.runtime.metrics import new_registry
from common.worker.node import Node


class _KvTokenSeconds(Collector):
    """What the pool's owned token slots held, over time, as of the end of the last step. Waste as
    the PagedAttention paper has it, between two readings: 1 - live / (live + tail + reserved)."""

    def __init__(self, host: EngineHost) -> None:
        self._host = host

    def collect(self) -> Iterator[CounterMetricFamily]:
        integral = self._host.engine.integral
        family = CounterMetricFamily(
            "twinfleet_worker_kv_token_seconds",
            "Token slots of owned KV blocks, times seconds: live ones; tail, which hold nothing in"
            " blocks that do or are kept for padding; reserved, in blocks still empty.",
            labels=["state"],
        )
        family.add_metric(["live"], integral.live)
        family.add_metric(["tail"], integral.tail)
        family.add_metric(["reserved"], integral.empty)
        yield family


class WorkerMetrics:
    """Counters are moved by engine events; gauges are read when scraped."""

    def __init__(self, node: Node) -> None:
        self.registry: CollectorRegistry = new_registry()
        self._tokens = Counter(
            "twinfleet_worker_generation_tokens", "Tokens emitted.", registry=self.registry
        )
        self._prompt = Counter(
            "twinfleet_worker_prompt_tokens",
            "Prompt tokens by where their KV came from.",
            ["source"],
            registry=self.registry,
        )
        self._preemptions = Counter(
            "twinfleet_worker_preemptions", "Sequences preempted.", registry=self.registry
        )
        self._gauge("requests_running", "Sequences that hold blocks.", node, "running")
        self._gauge("requests_waiting", "Sequences that wait for blocks.", node, "waiting")
        self._gauge("kv_blocks", "Blocks of the pool.", node, "blocks_total")
        self._gauge("kv_blocks_used", "Blocks with an owner.", node, "blocks_used")
        self._gauge("kv_blocks_cached", "Blocks kept without an owner.", node, "blocks_cached")
        steps = Gauge("twinfleet_worker_steps", "Engine steps.", registry=self.registry)
        steps.set_function(lambda: node.host.steps)
        waste = Gauge(
            "twinfleet_worker_kv_waste_ratio",
            "Allocated token slots that hold nothing, over time.",
            registry=self.registry,
        )
        waste.set_function(lambda: node.host.engine.integral.waste)
        self.registry.register(_KvTokenSeconds(node.host))

    def _gauge(self, name: str, text: str, node: Node, column: str) -> None:
        gauge = Gauge(f"twinfleet_worker_{name}", text, registry=self.registry)
        gauge.set_function(lambda: float(getattr(node.host.load, column)))

    def observe(self, events: Sequence[EngineEvent]) -> None:
        emitted = sum(isinstance(event, Emitted) for event in events)
        if emitted:
            self._tokens.inc(emitted)
        for event in events:
            if isinstance(event, Done | Dropped | FirstDrawn):
                ledger = event.ledger
                computed = ledger.prefill_computed_tokens + ledger.decode_prefill_tokens
                self._prompt.labels("computed").inc(computed)
                self._prompt.labels("cached_device").inc(ledger.cached_device_tokens)
                self._preemptions.inc(ledger.preemptions)
