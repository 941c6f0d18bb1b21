"""Looks for patterns in all that passes a host's network interfaces, until its input ends.

    python -m tests.machines.capture PATTERN_HEX...

Says in JSON how many bytes were seen, and which patterns. As `tcpdump` would see it, without it.
"""

from __future__ import annotations

import json
import select
import socket
import sys

_EVERYTHING = 0x0003  # ETH_P_ALL
_BUFFER = 64 << 20


def main() -> None:
    patterns = [bytes.fromhex(each) for each in sys.argv[1:]]
    found: set[str] = set()
    num_bytes = 0
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERYTHING)) as link:
        link.setsockopt(socket.SOL_SOCKET, 33, _BUFFER)  # SO_RCVBUFFORCE
        print(json.dumps("ready"), flush=True)  # noqa: T201 - whoever started it reads this
        while True:
            ready, _, _ = select.select([link, sys.stdin], [], [])
            if sys.stdin in ready:
                break
            frame = link.recv(1 << 16)
            num_bytes += len(frame)
            found |= {each.hex() for each in patterns if each in frame}
    print(json.dumps({"bytes": num_bytes, "found": sorted(found)}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
