"""What all changes have in common, and how amounts are written."""

import msgspec

from eventsched.domain.objects import CPU, EPHEMERAL_STORAGE, MEMORY

MIB = 1024 * 1024


class ChangeValue(msgspec.Struct, frozen=True):
    """Base of all changes: they are compared by value. ``text`` says what to do, as an imperative
    phrase; ``changed`` gives the pod, ``changed_node`` the node, and ``changed_objects`` the other
    objects with the change."""


def quantity(resource: str, amount: int) -> str:
    """An amount as a manifest has it: 1500m, 512Mi, 2."""
    if resource == CPU:
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith("hugepages-"):
        return f"{amount // MIB}Mi" if amount and amount % MIB == 0 else str(amount)
    return str(amount)


def unit_of(resource: str) -> int:
    """The steps in which a request of a resource is lowered: a mebibyte, a millicore, or 1."""
    return MIB if resource in (MEMORY, EPHEMERAL_STORAGE) else 1
