"""Read bandwidth: how fast threads can sum an array far larger than the caches.

numpy releases the lock while it sums and asks for huge pages, as the weights of a runner do. The
best of several runs, because a floor must not be raised by whoever else used the memory.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

ARRAY_BYTES = 256 << 20
_REPEATS = 6


def read_bandwidth(threads: int, array_bytes: int = ARRAY_BYTES) -> float:
    """Bytes a second of all threads together."""
    array = np.ones(array_bytes // 8, dtype=np.int64)
    parts = np.array_split(array, threads)
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(np.sum, parts))  # starts the threads
        best = min(_seconds(pool, parts) for _ in range(_REPEATS))
    return array.nbytes / best


def _seconds(pool: ThreadPoolExecutor, parts: list[np.ndarray]) -> float:
    start = time.perf_counter()
    list(pool.map(np.sum, parts))
    return time.perf_counter() - start
