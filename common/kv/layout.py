"""Blocks as arrays: the one place that knows where a token lies in a block's bytes."""

import numpy as np
import numpy.typing as npt

from common.domain.block import LayoutTag


def block_array(layout: LayoutTag, data: memoryview) -> npt.NDArray[np.uint8]:
    """The block's bytes as [layers, 2, heads, tokens, bytes of one head's vector], a view."""
    layers, two, heads, tokens, _dim = layout.shape
    flat = np.frombuffer(data, dtype=np.uint8, count=layout.block_bytes)
    return flat.reshape(layers, two, heads, tokens, -1)


def clear_tail(layout: LayoutTag, data: memoryview, live_tokens: int) -> None:
    """Zero what a partial block holds past its live tokens: it may be another request's."""
    block_array(layout, data)[:, :, :, live_tokens:] = 0
