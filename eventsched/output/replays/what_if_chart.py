"""A chart of a closed loop as SVG: requested shares and waiting pods over time, as they were and as
they would have been."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

_WIDTH, _HEIGHT = 760, 130
"""The size of a panel's plot, in pixels."""
_LEFT, _TOP, _GAP = 70, 56, 46
_WAS, _WOULD_BE = "#8a8f98", "#1f6feb"
_RESOURCES = 4
"""Panels of resources at most: the first ones that nodes offer."""
Points = Sequence[tuple[float, float]]


def chart(document: Mapping[str, Any]) -> str:
    """The chart of a closed loop's document."""
    before, after = document["before"]["samples"], document["after"]["samples"]
    names = list(dict.fromkeys(name for s in (*before, *after) for name in s["requested"]))
    panels = [
        (f"{name} requested, %", _shares(before, name), _shares(after, name))
        for name in names[:_RESOURCES]
    ]
    panels.append(("pods that wait", _waiting(before), _waiting(after)))
    times = [sample["seconds"] for sample in (*before, *after)]
    first, last = min(times, default=0.0), max(times, default=0.0)
    height = _TOP + len(panels) * (_HEIGHT + _GAP)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH + _LEFT + 20}" '
        f'height="{height}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        _text(_LEFT, 20, f"{document['stream']}: {document['rules']}", size=14),
        _text(_LEFT, 40, "was", color=_WAS),
        _text(_LEFT + 40, 40, "would be", color=_WOULD_BE),
        _text(_LEFT + 120, 40, f"{document['moved']} pods on another node"),
    ]
    for number, (title, old, new) in enumerate(panels):
        top = _TOP + number * (_HEIGHT + _GAP) + 16
        lines += _panel(title, old, new, top, (first, last))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _shares(samples: Sequence[Mapping[str, Any]], name: str) -> Points:
    return [(s["seconds"], 100 * s["requested"].get(name, 0.0)) for s in samples]


def _waiting(samples: Sequence[Mapping[str, Any]]) -> Points:
    return [(s["seconds"], s["waiting"]) for s in samples]


def _panel(title: str, old: Points, new: Points, top: int, times: tuple[float, float]) -> list[str]:
    highest = max((value for _, value in (*old, *new)), default=0.0) or 1.0
    bottom = top + _HEIGHT
    return [
        _text(_LEFT, top - 5, title),
        f'<path d="M{_LEFT} {top}V{bottom}H{_LEFT + _WIDTH}" fill="none" stroke="#444"/>',
        _text(_LEFT - 6, top + 10, f"{highest:.4g}", anchor="end"),
        _text(_LEFT - 6, bottom, "0", anchor="end"),
        _text(_LEFT, bottom + 15, f"{times[0]:.0f} s"),
        _text(_LEFT + _WIDTH, bottom + 15, f"{times[1]:.0f} s", anchor="end"),
        _line(old, top, highest, times, _WAS),
        _line(new, top, highest, times, _WOULD_BE),
    ]


def _line(points: Points, top: int, highest: float, times: tuple[float, float], color: str) -> str:
    across, down = _WIDTH / (times[1] - times[0] or 1.0), _HEIGHT / highest
    places = " ".join(
        f"{_LEFT + across * (at - times[0]):.1f},{top + _HEIGHT - down * value:.1f}"
        for at, value in points
    )
    return f'<polyline points="{places}" fill="none" stroke="{color}" stroke-width="1.5"/>'


def _text(
    x: int, y: int, text: str, *, size: int = 12, color: str = "#222", anchor: str = "start"
) -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" fill="{color}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )
