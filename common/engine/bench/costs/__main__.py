"""`python -m common.engine.bench.costs`"""

import sys

from common.engine.bench.costs.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
