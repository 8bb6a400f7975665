"""Draws: the only randomness there is, a keyed hash of what identifies the choice.

numpy's and Python's generators change between versions; a hash does not, and SQL or another
language can repeat it. See design 9.4.
"""

from hashlib import blake2b


def draw(seed: str, uid: str, attempt: int, plugin: str, node: str = "") -> int:
    """A number in [0, 2**64) that depends on nothing but the arguments.

    ``seed`` is the stream's, ``plugin`` names who draws ("tie-break" for the choice among equal
    nodes), ``node`` is empty where the draw is about no particular node.
    """
    text = f"{uid}\0{attempt}\0{plugin}\0{node}".encode()
    return int.from_bytes(blake2b(text, digest_size=8, key=seed.encode()[:64]).digest(), "big")
