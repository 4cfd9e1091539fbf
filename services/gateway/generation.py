"""What one stream is asked for, after validation: ids, sampling, and how ids become text again."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from common.domain.sampling import SamplingParams
from services.gateway.text_output import TextOptions


@dataclass(frozen=True, slots=True)
class Generation:
    prompt: npt.NDArray[np.int32]
    root: bytes
    """Parent hash of the first unit; empty: nothing of it is cached."""
    units: bytes
    """Hash column of the prompt's whole units."""
    sampling: SamplingParams
    text: TextOptions
    priority: int = 0
