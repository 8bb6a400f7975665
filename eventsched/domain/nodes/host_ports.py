"""The host ports in use on nodes. Part of a NodeTable; derived from the pods on its rows."""

from collections.abc import Iterable, Mapping

from eventsched.domain.objects import HostPort

_EVERY = "0.0.0.0"


class HostPortUse:
    """How many pods on each row hold a host port. It takes room for the ports in use alone: a pod
    may name any number of them."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, int], dict[str, dict[int, int]]] = {}

    def place(self, row: int, ports: Iterable[HostPort], sign: int) -> None:
        """Counts the ports of a pod that comes to a row (1) or leaves it (-1)."""
        for port in ports:
            name = (port.protocol, port.port)
            by_ip = self._held.setdefault(name, {})
            rows = by_ip.setdefault(port.ip, {})
            rows[row] = rows.get(row, 0) + sign
            if not rows[row]:
                del rows[row]
                if not rows:
                    del by_ip[port.ip]
                    if not by_ip:
                        del self._held[name]

    def colliding(self, port: HostPort) -> Mapping[str, Mapping[int, int]]:
        """Address → row → pods, for the ports in use that one would collide with (upstream:
        framework HostPortInfo.CheckConflict): all addresses for 0.0.0.0, else that address and
        0.0.0.0."""
        by_ip = self._held.get((port.protocol, port.port), {})
        if port.ip == _EVERY:
            return by_ip
        return {ip: by_ip[ip] for ip in (_EVERY, port.ip) if ip in by_ip}
