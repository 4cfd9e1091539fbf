"""The real default model, for the few tests that want one."""

import os
from pathlib import Path

import pytest

from common.checkpoint.default_model import DEFAULT_MODEL, resolve_model


def default_cache() -> Path:
    return Path(os.environ.get("TWINFLEET_CACHE", "~/.cache/twinfleet")).expanduser()


def default_model() -> Path:
    """Its path; skips the test when it is not in the cache and may not be fetched."""
    place = default_cache() / "models" / DEFAULT_MODEL.file_name
    if not place.exists() and "TWINFLEET_TEST_DOWNLOAD" not in os.environ:
        pytest.skip("the default model is not in the cache: set TWINFLEET_TEST_DOWNLOAD")
    return resolve_model("default", default_cache())
