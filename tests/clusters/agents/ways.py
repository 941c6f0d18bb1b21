"""A network that a test makes up: vm1 is the driver, and its own name is a loopback address there.

So Debian and Ubuntu have it: `127.0.1.1 vm1` is in the /etc/hosts of vm1.
"""

import socket

DRIVER = "10.0.0.1"
NAMES = {"vm1": "127.0.1.1", "vm2": "10.0.0.2", "vm3": "10.0.0.3"}
"""What names stand for on the driver."""
WAYS = {
    "vm1": "127.0.0.1",
    "127.0.0.1": "127.0.0.1",
    "127.0.1.1": "127.0.0.1",
    "localhost": "127.0.0.1",
    "vm2": DRIVER,
    "vm3": DRIVER,
    "10.0.0.1": DRIVER,
    "10.0.0.2": DRIVER,
    "10.0.0.3": DRIVER,
    "far": "192.168.7.1",
}
"""The driver's address that leads to each."""


def known(host: str) -> str:
    """Take the place of `address_towards`."""
    if host not in WAYS:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return WAYS[host]


def numeric(host: str) -> str:
    return NAMES.get(host, host)
