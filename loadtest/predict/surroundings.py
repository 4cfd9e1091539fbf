"""What a request costs outside of the engines: hops, copies, and other processes' share of cores.

The defaults are of this project's own processes on two cores. Of one request at a time, 192 tokens
in, the client saw the first token 10 ms after what the prompt itself takes, 9 ms later where a
prefill worker computes it, and then the second 5 ms late. CPU is that of gateway, router, store and
client, solved from three loads of 5 requests and 20, 100 and 740 tokens a second. A copy through
shared memory: docs/log/2026-11-30.md.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Surroundings:
    cpu_us_a_token: float = 180.0
    """Of all processes but engines, while one token comes out."""
    cpu_us_a_request: float = 7_000.0
    """The same of one request, whatever its length."""
    cpu_s_a_s: float = 0.08
    """The same of every second, whatever happens: heartbeats and the like."""
    request_ms: float = 10.0
    """From the client to the first engine's inbox."""
    hop_ms: float = 4.0
    """From one worker to another."""
    transfer_gb_s: float = 4.3
    """Of keys and values between two workers."""
    transfer_ms: float = 4.0
    """Beside that, of each transfer."""
    cpu_s_a_gb: float = 0.24
    """Of whoever copies."""

    def copy_s(self, size_bytes: int) -> float:
        return self.transfer_ms * 1e-3 + size_bytes / (self.transfer_gb_s * 1e9)
