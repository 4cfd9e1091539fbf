"""Why a choice ended."""

from enum import IntEnum


class FinishReason(IntEnum):
    """`STOP` covers end-of-sequence, stop token ids and stop strings; `LENGTH` is max_tokens or the
    context limit; `CANCELLED` is ours (client gone, deadline); `ERROR` follows a failure."""

    STOP = 1
    LENGTH = 2
    CANCELLED = 3
    ERROR = 4
