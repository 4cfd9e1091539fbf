"""`python -m common.engine.bench.peers`"""

import sys

from common.engine.bench.peers.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
