"""`python -m paceline` is `paceline`."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        del sys.path[0]  # the current folder, whose `random.py` would be taken for Python's own
    from paceline.cli import main

    main()
