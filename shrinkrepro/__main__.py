"""`python -m shrinkrepro`, and the `shrinkrepro` command."""

from __future__ import annotations

import sys

from shrinkrepro.cli import main

if __name__ == "__main__":
    sys.exit(main())
