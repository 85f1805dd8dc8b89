"""Small charts as inline SVG: elements, a frame with two axes, and ticks at round numbers.

Colours come from the page's style sheet by class, so that charts follow light, dark and print modes. Elements
have no style attributes, which the page's security policy would refuse.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]


def element(name: str, content: str = "", **attributes: float | str) -> str:
    """Return an element.

    Args:
        name: name of the tag.
        content: markup inside the element, or escaped text; default empty.
        attributes: attributes; numbers are rounded, text is escaped. In names, `_` stands for `-`, and a
            trailing `_` is dropped (`class_`).

    Example:
        >>> element("text", "F1", x=1 / 3, text_anchor="end", class_="tick")
        '<text x="0.33" text-anchor="end" class="tick">F1</text>'
    """
    given = " ".join(f'{key.strip("_").replace("_", "-")}="{_value(v)}"' for key, v in attributes.items())
    return f"<{name} {given}>{content}</{name}>" if given else f"<{name}>{content}</{name}>"


def text(
    words: str, x: float, y: float, anchor: str = "start", class_: str = "tick", **attributes: str
) -> str:
    """Return a line of text; `anchor` is "start", "middle" or "end": the point of the text that is at x."""
    return element("text", escape(words), x=x, y=y, text_anchor=anchor, class_=class_, **attributes)


def polyline(points: Iterable[Point], class_: str) -> str:
    """Return a line through points."""
    coordinates = " ".join(f"{_value(x)},{_value(y)}" for x, y in points)
    return element("polyline", points=coordinates, class_=class_)


def picture(
    title: str, description: str, width: float, height: float, content: str, **attributes: str
) -> str:
    """Return a chart with its title and its description for screen readers."""
    words = element("title", escape(title)) + element("desc", escape(description))
    box = f"0 0 {_value(width)} {_value(height)}"
    return element("svg", words + content, viewBox=box, role="img", **attributes)


@dataclass(frozen=True)
class Frame:
    """The plotting area of a chart, which maps values to coordinates.

    Args:
        left, top, right, bottom: borders of the plotting area, in the units of the chart.
        x_range, y_range: values at the borders.
    """

    left: float
    top: float
    right: float
    bottom: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]

    def x(self, value: float) -> float:
        """Return the x coordinate of a value."""
        low, high = self.x_range
        return self.left + (value - low) / (high - low) * (self.right - self.left)

    def y(self, value: float) -> float:
        """Return the y coordinate of a value."""
        low, high = self.y_range
        return self.bottom - (value - low) / (high - low) * (self.bottom - self.top)

    def at(self, points: Iterable[Point]) -> list[Point]:
        """Return the coordinates of points."""
        return [(self.x(x), self.y(y)) for x, y in points]

    def x_axis(self, ticks: Sequence[tuple[float, str]], name: str = "", grid: bool = False) -> str:
        """Return the tick labels below the area, the name of the axis and, for `grid`, vertical lines."""
        parts = [text(words, self.x(value), self.bottom + 14, "middle") for value, words in ticks]
        if grid:
            parts += [self._line(self.x(v), self.top, self.x(v), self.bottom) for v, _ in ticks]
        if name:
            parts.append(text(name, (self.left + self.right) / 2, self.bottom + 30, "middle", "axis"))
        return "".join(parts)

    def y_axis(self, ticks: Sequence[tuple[float, str]], name: str = "") -> str:
        """Return the tick labels left of the area, horizontal lines, and the name of the axis above it."""
        parts = [self._line(self.left, self.y(value), self.right, self.y(value)) for value, _ in ticks]
        parts += [text(words, self.left - 6, self.y(value) + 3.5, "end") for value, words in ticks]
        if name:
            parts.append(text(name, 4, self.top - 15, "start", "axis"))
        return "".join(parts)

    def _line(self, x1: float, y1: float, x2: float, y2: float) -> str:
        return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_="grid")


def round_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return at least two, and about `about`, round numbers that cover a range.

    Example:
        >>> round_ticks(81.3, 96.2)
        [80, 85, 90, 95, 100]
    """
    if high - low < 1e-6:
        high = low + 1
    width = (high - low) / about
    power = 10.0 ** math.floor(math.log10(width))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= width * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = [round(number * step, 9) for number in range(first, max(last, first + 1) + 1)]
    return [int(tick) if tick == int(tick) else tick for tick in ticks]


def labelled(ticks: Iterable[float]) -> list[tuple[float, str]]:
    """Return ticks labelled with their values."""
    return [(tick, f"{tick:g}") for tick in ticks]


def _value(value: float | str) -> str:
    return escape(value) if isinstance(value, str) else f"{round(value, 2):g}"
