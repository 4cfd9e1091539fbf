"""Where the time and the bytes of one request went.

Every station adds to its own columns only; the writer of the stream sums what it and its prefill
peer report and sends the whole with the end of the stream. Milliseconds and bytes.
"""

from dataclasses import dataclass, fields


@dataclass(slots=True)
class Ledger:
    """Columns of one request; adding two ledgers adds each column."""

    queue_ms: float = 0.0
    """Waiting in the router for a worker."""
    reserve_ms: float = 0.0
    """From Assign to blocks held on the writer."""
    onboard_ms: float = 0.0
    onboard_bytes: int = 0
    """Blocks read from the kvstore."""
    prefill_ms: float = 0.0
    prefill_chunks: int = 0
    prefill_computed_tokens: int = 0
    """Prompt tokens that a prefill worker computed."""
    decode_prefill_tokens: int = 0
    """Prompt tokens that the decode worker computed itself."""
    recomputed_tokens: int = 0
    """Tokens computed again after a preemption; never counted as prompt work."""
    transfer_ms: float = 0.0
    transfer_bytes: int = 0
    """KV bytes that crossed from prefill to decode."""
    transfer_early_bytes: int = 0
    """Those that had arrived before the prompt's last chunk was computed."""
    cached_device_tokens: int = 0
    cached_host_tokens: int = 0
    """Prompt tokens that nobody had to compute, by where they were found."""
    decode_ms: float = 0.0
    decode_steps: int = 0
    preemptions: int = 0

    def add(self, other: "Ledger") -> None:
        for column in fields(self):
            total = getattr(self, column.name) + getattr(other, column.name)
            setattr(self, column.name, total)

    @property
    def cached_tokens(self) -> int:
        return self.cached_device_tokens + self.cached_host_tokens
