"""`python -m services.prefill`."""

from common.runtime.service import run
from services.prefill.app import build
from services.prefill.settings import PrefillSettings

if __name__ == "__main__":
    settings = PrefillSettings()
    run(lambda me: build(settings, me), settings)
