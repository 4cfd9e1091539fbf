"""python -m loadtest"""

import signal
import sys

from loadtest.cli import main


def _end(*_: object) -> None:
    """As on Ctrl-C: clusters that were started end, too, and what was seen is kept. In the
    background of a script Ctrl-C is ignored, and this must not be."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


signal.signal(signal.SIGTERM, _end)
sys.exit(main())
