"""Draws, the only randomness in decisions: a keyed hash of what identifies the choice.

The random generators of numpy and Python change between versions. A hash does not, and SQL or
another language can compute it.
"""

from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray


def draw(seed: str, uid: str, attempt: int, plugin: str, node: str = "") -> int:
    """A number in [0, 2**64) that depends only on the arguments.

    ``seed`` is the stream's; ``plugin`` names the caller ("tie-break" for the choice among equal
    nodes); ``node`` is empty if the draw is not about one node.
    """
    text = f"{uid}\0{attempt}\0{plugin}\0{node}".encode()
    return int.from_bytes(blake2b(text, digest_size=8, key=seed.encode()[:64]).digest(), "big")


def name_hash(name: str) -> int:
    """64 bits of BLAKE2b of a name, as a signed integer: an argument of ``mixed``."""
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big", signed=True)


def mixed(key: int, hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """uint64[n]: a draw for each of many nodes at once. ``key`` is a ``draw`` without a node,
    ``hashes`` are those of the nodes' names. The arithmetic is modulo 2**64; it is the finalizer of
    SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014):

        z = (hash XOR key) + 0x9E3779B97F4A7C15
        z = (z XOR z >> 30) * 0xBF58476D1CE4E5B9
        z = (z XOR z >> 27) * 0x94D049BB133111EB
        z XOR z >> 31
    """
    z = (hashes ^ np.uint64(key)) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
