"""`python -m services.decode`."""

from common.runtime.service import run
from services.decode.app import build
from services.decode.settings import DecodeSettings

if __name__ == "__main__":
    settings = DecodeSettings()
    run(lambda me: build(settings, me), settings)
