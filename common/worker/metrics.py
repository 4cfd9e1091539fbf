"""What a worker tells Prometheus."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge

from common.engine.job import Done, Dropped, Emitted, EngineEvent, FirstDrawn
from common.runtime.metrics import new_registry
from common.worker.node import Node


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
