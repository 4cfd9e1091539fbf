"""What the C heap does with a step's large temporaries.

glibc hands freed memory back to the kernel, and the next layer pays for fresh pages again: 65,000
page faults in a 512-token chunk, a twelfth of its time. A worker runs steps of like size for hours,
so it keeps what it freed, at most the temporaries of its largest step.
"""

import ctypes
import sys
from typing import Final

_TRIM_THRESHOLD: Final = -1
_TOP_PAD: Final = -2
_MMAP_THRESHOLD: Final = -3
_KEPT_BYTES: Final = 1 << 30
_PAD_BYTES: Final = 64 << 20
_LARGEST_MMAP_THRESHOLD: Final = 32 << 20


def keep_freed_memory() -> bool:
    """For the whole process. False where the C library has no such setting."""
    if sys.platform != "linux":
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallopt"):
        return False
    settings = (
        (_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD),
        (_TRIM_THRESHOLD, _KEPT_BYTES),
        (_TOP_PAD, _PAD_BYTES),
    )
    return all([library.mallopt(name, value) == 1 for name, value in settings])
