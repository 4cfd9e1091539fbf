"""Blocks as arrays: the one place that knows where a token lies in a block's bytes.

Elements are unsigned integers as wide as the layout's dtype: bits are moved here, never computed
with. `halves` looks at a block of any arrangement through the canonical axes, and everything else
follows from it, so a new arrangement is one more case there. Two layouts that agree in dtype,
tokens, layers and heads turn into each other by way of the canonical arrangement.
"""

from typing import assert_never

import numpy as np
import numpy.typing as npt

from common.domain.block import DTYPE_BYTES, LayoutTag

Bits = npt.NDArray[np.unsignedinteger]
_ELEMENTS: dict[int, type[np.unsignedinteger]] = {1: np.uint8, 2: np.uint16, 4: np.uint32}


def halves(layout: LayoutTag, data: memoryview) -> tuple[Bits, Bits]:
    """Keys and values, each a view [layers, heads, tokens, dim] of the block's bytes."""
    layers, two, heads, tokens, dim = layout.shape
    element = np.dtype(_ELEMENTS[DTYPE_BYTES[layout.dtype]]).newbyteorder("<")
    flat = np.frombuffer(data[: layout.block_bytes], dtype=element)
    keys, values = flat.reshape(layers, two, heads, tokens * dim).swapaxes(0, 1)
    keys = keys.reshape(layers, heads, tokens, dim)
    match layout.arrangement:
        case "LKHTD":
            return keys, values.reshape(layers, heads, tokens, dim)
        case "LKHTD-VT":
            return keys, values.reshape(layers, heads, dim, tokens).swapaxes(2, 3)
        case _:
            assert_never(layout.arrangement)


def to_canonical(layout: LayoutTag, data: memoryview) -> Bits:
    """A copy in the canonical arrangement: [layers, key/value, heads, tokens, dim]."""
    return np.stack(halves(layout, data), axis=1)


def from_canonical(layout: LayoutTag, canonical: Bits) -> bytes:
    """The block's bytes in `layout`, from [layers, key/value, heads, tokens, dim]."""
    data = bytearray(layout.block_bytes)
    keys, values = halves(layout, memoryview(data))
    if (canonical.shape, canonical.dtype) != (layout.shape, keys.dtype):
        raise ValueError(f"{canonical.dtype} {canonical.shape} is no block of {layout}")
    keys[:], values[:] = canonical[:, 0], canonical[:, 1]
    return bytes(data)


def clear_tail(layout: LayoutTag, data: memoryview, live_tokens: int) -> None:
    """Zero what a partial block holds past its live tokens: it may be another request's."""
    for half in halves(layout, data):
        half[:, :, live_tokens:] = 0
