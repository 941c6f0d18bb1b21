"""The zygote's process, as it begins: what needs no Python is loaded beside what does."""

from __future__ import annotations

import sys

from paceline.system.preloading import Preloading


def main() -> None:
    """Run as `python -m paceline.clusters.zygote_process FD`."""
    torch = Preloading("torch", "lib/libtorch_cpu.so")
    from paceline.clusters.forking import serve

    serve(int(sys.argv[1]), torch)


if __name__ == "__main__":
    main()
