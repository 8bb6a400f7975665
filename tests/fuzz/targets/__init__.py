"""The targets: one module per boundary, each with ``fuzz_one(data)``.

``fuzz_one`` raises if the product did something that it must not do. An input that begins with a
control character is a series of choices (``choices``), every other one is read as it is.
"""

TARGETS = (
    "quantities",
    "api_objects",
    "configuration",
    "extender_answers",
    "extender_requests",
    "exported_logs",
    "stored_bytes",
    "manifests",
    "kubeconfigs",
)
"""Modules of this package, in the order of ``make fuzz``."""


def is_choices(data: bytes) -> bool:
    """Whether an input is a series of choices."""
    return data[:1] < b"\x20" and data[:1] not in (b"", b"\n", b"\t", b"\r")
