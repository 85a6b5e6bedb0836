"""Bytes over states as a picture: a line for each way of saving them, on a logarithmic scale."""

from __future__ import annotations

from html import escape
from math import floor, log10

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 760, 380, 70, 150, 20, 50
_COLOURS = ("#8b93a1", "#d9730d", "#0b7a3b", "#9065b0", "#337ea9", "#cb3f3f", "#666666")
_QUOTA = 10_000_000
_STYLE = "text{font:13px system-ui,sans-serif;fill:#333}line{stroke:#8886}"


def plot(curves: dict[str, list[float]], *, every: int) -> str:
    """An SVG.

    Args:
        curves: For each name, the bytes after each so many-th state.
        every: How many states lie between two points.
    """
    lowest = floor(log10(min(min(curve) for curve in curves.values())))
    highest = log10(max(max(curve) for curve in curves.values())) + 0.1
    longest = max(map(len, curves.values())) - 1

    def x(n: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * n / longest

    def y(size: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * (log10(size) - lowest) / (highest - lowest)

    view = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="Bytes that are stored after so many states"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {view}>',
        f"<style>{_STYLE}</style>",
        # Its own paper: it looks the same on a light and on a dark page.
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" rx="8" fill="#fff"/>',
    ]
    for power in range(lowest, floor(highest) + 1):
        at = y(10**power)
        name = f"{10 ** (power - 6):g} MB"
        out += [_line(_LEFT, at, _WIDTH - _RIGHT, at), _text(_LEFT - 8, at + 4, name, "end")]
    quota = y(_QUOTA)
    out.append(_line(_LEFT, quota, _WIDTH - _RIGHT, quota, "stroke-dasharray:6 4;stroke:#cb3f3f"))
    for n in range(0, longest + 1, 5):
        out.append(_text(x(n), _HEIGHT - _BOTTOM + 20, str(n * every or 1), "middle"))
    out.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 10, "states kept", "middle"))
    taken: list[float] = []
    ends = sorted(curves.items(), key=lambda item: item[1][-1], reverse=True)
    colours = dict(zip(curves, _COLOURS, strict=False))
    for name, curve in ends:
        points = " ".join(f"{x(n):.1f},{y(size):.1f}" for n, size in enumerate(curve))
        width = 3 if name.startswith("format") else 1.5
        out.append(f'<polyline points="{points}" style="fill:none;stroke:{colours[name]};stroke-width:{width}"/>')
        # Names of lines that end close together stand below each other.
        at = max([y(curve[-1]) + 4, *(other + 15 for other in taken[-1:])])
        taken.append(at)
        out.append(_text(_WIDTH - _RIGHT + 8, at, name, "start", f"fill:{colours[name]}"))
    return "\n".join([*out, "</svg>\n"])


def _line(x1: float, y1: float, x2: float, y2: float, style: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" style="{style}"/>'


def _text(x: float, y: float, text: str, anchor: str, style: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" style="{style}">{escape(text)}</text>'
