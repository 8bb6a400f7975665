"""Which nodes have which container images."""

from eventsched.domain.objects import Node


class ImageHolders:
    """The rows that have an image, by each of the image's names. Part of NodeTable."""

    def __init__(self) -> None:
        self.version = 0
        """Changes with any node's images and with the number of nodes: scores depend on both."""
        self._sizes: dict[str, dict[int, int]] = {}

    def copied(self) -> "ImageHolders":
        """The same rows, in an index of its own."""
        other = ImageHolders()
        other.version = self.version
        other._sizes = {name: rows.copy() for name, rows in self._sizes.items()}
        return other

    def __len__(self) -> int:
        """The number of names."""
        return len(self._sizes)

    def of(self, name: str) -> dict[int, int]:
        """Row → size in bytes, for the nodes that have an image of exactly that name."""
        return self._sizes.get(name, {})

    def put(self, row: int, before: Node | None, node: Node | None) -> None:
        """Replaces the images of a row's node; None if it had or has none."""
        if (before.images if before else ()) == (node.images if node else ()):
            if node is None or before is None:
                self.version += 1
            return
        self.version += 1
        for image in before.images if before else ():
            for name in image.names:
                holders = self._sizes.get(name, {})
                if holders.pop(row, None) is not None and not holders:
                    del self._sizes[name]
        for image in node.images if node else ():
            for name in image.names:
                self._sizes.setdefault(name, {})[row] = image.size
