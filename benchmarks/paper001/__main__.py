"""`python -m benchmarks.paper001`, as scripts/reproduce calls it."""

import sys

from benchmarks.paper001.command import main

if __name__ == "__main__":
    sys.exit(main())
