"""What a request costs outside of the engines: hops, copies, and other processes' share of cores.

The defaults are of this project's own processes on two cores. 738 tokens/s and 5.8 requests/s
through HTTP took 0.25 CPU-seconds a second of gateway, router, store, the worker's own loop and the
client, split here by what each does a token and a request; a copy through shared memory 4.3 GB/s
and 0.24 CPU-seconds a GB (docs/log/2026-11-30.md). Hops are estimates.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Surroundings:
    cpu_us_a_token: float = 250.0
    """Of all processes but engines, while one token comes out."""
    cpu_us_a_request: float = 10_000.0
    """The same of one request, whatever its length."""
    request_ms: float = 5.0
    """From the client to the first engine's inbox."""
    hop_ms: float = 0.5
    """From one worker to another."""
    transfer_gb_s: float = 4.3
    """Of keys and values between two workers."""
    transfer_ms: float = 1.0
    """Beside that, of each transfer."""
    cpu_s_a_gb: float = 0.24
    """Of whoever copies."""

    def copy_s(self, size_bytes: int) -> float:
        return self.transfer_ms * 1e-3 + size_bytes / (self.transfer_gb_s * 1e9)
