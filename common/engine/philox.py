"""The random number of one draw, from its name alone.

Philox is counter-based: its output is a pure function of key and counter, so a draw is named, not
ordered. The key is (seed, choice), the counter (position, 0, 0, 0), where position counts the ids
already drawn for this choice. A worker that takes over a stream, or computes it in another batch,
therefore draws what the first one would have.
"""

import numpy as np

_UNIT = 2.0**-53


def uniform(seed: int, choice: int, position: int) -> float:
    """In [0, 1), a multiple of 2**-53: the first of Philox4x64-10's four words, its top 53 bits.

    numpy steps the counter before it computes a word, so the counter that is used is position + 1.
    """
    key = np.array([seed, choice], dtype=np.uint64)
    counter = np.array([position, 0, 0, 0], dtype=np.uint64)
    word = int(np.random.Philox(key=key, counter=counter).random_raw())
    return (word >> 11) * _UNIT
