"""Prometheus metrics: one registry per process, never the library's global one.

An app makes its registry, its parts register in it, and the admin port renders it. So a test or the
simulator can hold many apps in one interpreter. Names start with `twinfleet_`.
"""

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

LATENCY_BUCKETS_S = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip
"""Queueing, routing, transfers, TTFT, whole requests."""
TOKEN_LATENCY_BUCKETS_S = (
    0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5,
)  # fmt: skip
"""Gaps between tokens and engine steps."""
TOKEN_COUNT_BUCKETS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536)
BYTES_BUCKETS = tuple(float(4**power) for power in range(5, 16))
"""1 KiB to 1 GiB."""


def new_registry() -> CollectorRegistry:
    """With the process's own CPU, memory and descriptor numbers in it."""
    registry = CollectorRegistry()
    ProcessCollector(namespace="twinfleet", registry=registry)
    return registry


def rendered(registry: CollectorRegistry) -> bytes:
    """In the Prometheus text format (CONTENT_TYPE)."""
    return generate_latest(registry)
