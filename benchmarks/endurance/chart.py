"""The samples as an SVG: a panel for each series, over the days."""

from collections.abc import Sequence
from xml.sax.saxutils import escape

from benchmarks.endurance.samples import Sample
from benchmarks.endurance.verdict import SERIES, TOLERANCE, Comparison, comparisons

_WIDTH, _PANEL, _LEFT, _TOP, _HEIGHT = 760, 130, 70, 30, 80
_PLOT = _WIDTH - _LEFT - 20


def svg(taken: Sequence[Sample], title: str) -> str:
    """The chart. The band is the value after the first week, more or less 10 %."""
    compared = {each.name: each for each in comparisons(taken)}
    height = _TOP + _PANEL * len(SERIES)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">{escape(title)}</text>',
    ]
    for number, name in enumerate(SERIES):
        parts.append(f'<g transform="translate({_LEFT},{_TOP + 20 + number * _PANEL})">')
        parts += _panel(taken, name, compared.get(name))
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _panel(taken: Sequence[Sample], name: str, compared: Comparison | None) -> list[str]:
    values = [float(getattr(sample, name)) for sample in taken]
    top = max(values, default=1.0) * 1.15 or 1.0
    last = max((sample.day for sample in taken), default=1)

    def y(value: float) -> float:
        return round(_HEIGHT * (1 - min(value, top) / top), 1)

    points = [
        f"{_PLOT * sample.day / last:.1f},{y(value)}"
        for sample, value in zip(taken, values, strict=True)
    ]
    parts = []
    if compared is not None:
        high = y(compared.after_first_week * (1 + TOLERANCE))
        low = y(compared.after_first_week * (1 - TOLERANCE))
        parts.append(f'<rect width="{_PLOT}" y="{high}" height="{low - high:.1f}" fill="#dbe9d8"/>')
    parts += [
        f'<path d="M0 0V{_HEIGHT}H{_PLOT}" fill="none" stroke="#666"/>',
        f'<polyline fill="none" stroke="#1f5fa8" stroke-width="1.5" points="{" ".join(points)}"/>',
        f'<text x="4" y="-4">{escape(SERIES[name])}</text>',
        f'<text x="-6" y="10" text-anchor="end">{top:,.4g}</text>',
        f'<text x="-6" y="{_HEIGHT}" text-anchor="end">0</text>',
        f'<text x="{_PLOT}" y="{_HEIGHT + 15}" text-anchor="end">day {last}</text>',
    ]
    return parts
