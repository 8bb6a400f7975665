"""The host ports in use on nodes. Part of a NodeTable; derived from the pods on its rows."""

from collections.abc import Iterable, Mapping

from eventsched.domain.objects import HostPort

_ALL_ADDRESSES = "0.0.0.0"


class HostPortUse:
    """How many pods on each row use a host port. Only ports in use take memory: a pod may name any
    number of them."""

    def __init__(self) -> None:
        self._by_port: dict[tuple[str, int], dict[str, dict[int, int]]] = {}

    def copied(self) -> "HostPortUse":
        """The same ports in use, counted on their own."""
        other = HostPortUse()
        other._by_port = {
            name: {ip: rows.copy() for ip, rows in by_ip.items()}
            for name, by_ip in self._by_port.items()
        }
        return other

    def place(self, row: int, ports: Iterable[HostPort], sign: int) -> None:
        """Counts the ports of a pod that is added to a row (1) or removed from it (-1)."""
        for port in ports:
            name = (port.protocol, port.port)
            by_ip = self._by_port.setdefault(name, {})
            rows = by_ip.setdefault(port.ip, {})
            rows[row] = rows.get(row, 0) + sign
            if not rows[row]:
                del rows[row]
                if not rows:
                    del by_ip[port.ip]
                    if not by_ip:
                        del self._by_port[name]

    def colliding(self, port: HostPort) -> Mapping[str, Mapping[int, int]]:
        """Address → row → number of pods, for the ports in use that collide with a port (upstream:
        framework HostPortInfo.CheckConflict): all addresses for 0.0.0.0, otherwise that address and
        0.0.0.0."""
        by_ip = self._by_port.get((port.protocol, port.port), {})
        if port.ip == _ALL_ADDRESSES:
            return by_ip
        return {ip: by_ip[ip] for ip in (_ALL_ADDRESSES, port.ip) if ip in by_ip}
