"""python -m loadtest"""

import signal
import sys

from loadtest.cli import main

# Asked to end, it ends as on Ctrl-C: clusters that it started end, too, and what it saw is kept.
signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
sys.exit(main())
