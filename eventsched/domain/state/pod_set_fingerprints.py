"""Fingerprints of sets of pods: a node's topology object has that of the pods it covers.

The form is that of k8stopologyawareschedwg/podfingerprint v0.2.2 (podfingerprint.go): ``pfp0v001``
and the XXH64 sum, in hex, of the sorted sums of the pods. A pod's sum is XXH64 of its name, seeded
with that of its namespace. XXH64: github.com/Cyan4973/xxHash doc/xxhash_spec.md.
"""

from collections.abc import Iterable
from functools import lru_cache
from struct import iter_unpack, pack

_MASK = 2**64 - 1
_PRIMES = (
    0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)  # fmt: skip
_HEAD = "pfp0v001"


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """The fingerprint of a set of pods, each as (namespace, name)."""
    sums = sorted(_sum_of(namespace, name) for namespace, name in pods)
    return f"{_HEAD}{xxh64(pack(f'<{len(sums)}Q', *sums)):016x}"


@lru_cache(maxsize=16_384)
def _sum_of(namespace: str, name: str) -> int:
    return xxh64(name.encode(), xxh64(namespace.encode()))


def xxh64(data: bytes, seed: int = 0) -> int:
    """XXH64 of some bytes."""
    one, two, three, four, five = _PRIMES
    end = len(data) // 32 * 32
    if end:
        lanes = [(seed + one + two) & _MASK, (seed + two) & _MASK, seed, (seed - one) & _MASK]
        for words in iter_unpack("<4Q", data[:end]):
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
        digest = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            digest = ((digest ^ _round(0, lane)) * one + four) & _MASK
    else:
        digest = seed + five
    digest = (digest + len(data)) & _MASK
    while end + 8 <= len(data):
        word = int.from_bytes(data[end : end + 8], "little")
        digest = (_rotated(digest ^ _round(0, word), 27) * one + four) & _MASK
        end += 8
    if end + 4 <= len(data):
        word = int.from_bytes(data[end : end + 4], "little")
        digest = (_rotated(digest ^ (word * one & _MASK), 23) * two + three) & _MASK
        end += 4
    for byte in data[end:]:
        digest = _rotated(digest ^ (byte * five & _MASK), 11) * one & _MASK
    digest = (digest ^ digest >> 33) * two & _MASK
    digest = (digest ^ digest >> 29) * three & _MASK
    return digest ^ digest >> 32


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _PRIMES[1]) & _MASK, 31) * _PRIMES[0] & _MASK


def _rotated(value: int, by: int) -> int:
    value &= _MASK
    return (value << by | value >> (64 - by)) & _MASK
