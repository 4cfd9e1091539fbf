"""`python -m common.engine.bench`"""

import sys

from common.engine.bench.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
