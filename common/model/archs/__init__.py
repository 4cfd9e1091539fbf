"""Every architecture we can run: its name in a config, and where its class is.

Strings, so that reading the table imports no torch and no architecture that nobody asked for.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from common.checkpoint.config import Arch

ARCHITECTURES: Final[Mapping[Arch, str]] = MappingProxyType(
    {
        "llama": "common.model.archs.llama:Llama",
        "qwen3": "common.model.archs.qwen3:Qwen3",
    }
)
