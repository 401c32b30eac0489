"""Check whether a host name or an IP address is a loopback address."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Return whether ``host`` is a loopback address, which can be reached only from this machine.

    Every host name except ``localhost`` is treated as reachable from other machines.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost.example.org")
    (True, False)
    """
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
