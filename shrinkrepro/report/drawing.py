"""Where things go in the drawings of a report: the version counter's time line, a piece of graph, the search's course.

Lengths are in units of the drawing, x to the right and y down. Nothing here knows how a drawing is written down.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shrinkrepro.diagnosis import Diagnosis, Statement, Vertex
from shrinkrepro.report.wording import first_line
from shrinkrepro.results import Step, place

# Of the rises of a counter, how many are drawn one by one: the first, and the last.
_FIRST, _LAST = 5, 2
_ROW, _TOP, _LEFT, _COLUMN, _COLUMNS = 46, 20, 16, 26, 5
_NODE_WIDTH, _NODE_HEIGHT, _GAP, _LEVEL = 150, 40, 14, 34
# As many points as a curve can show.
_POINTS = 400
_COMMON = "torch::autograd::"


@dataclass(frozen=True)
class Event:
    """Something that happened to the tensor: the version from then on, and who did it."""

    role: str
    version: int
    where: str
    source: str
    x: float
    y: float


@dataclass(frozen=True)
class Timeline:
    """What happened to the saved tensor, from top to bottom; `path` is its version counter, stepping to the right."""

    events: tuple[Event, ...]
    path: str
    text_x: float
    width: float
    height: float


@dataclass(frozen=True)
class Box:
    """A node of the graph as a box; `where` is the place that made it, `role` "stale", "start" or empty."""

    name: str
    where: str
    role: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Graph:
    """Nodes from where backward begins, at the top, down to the leaves, and the edges along which gradients go."""

    boxes: tuple[Box, ...]
    edges: tuple[str, ...]
    width: float
    height: float


@dataclass(frozen=True)
class Point:
    """A step of the search: a place in the drawing, and its number."""

    x: float
    y: float
    step: int


@dataclass(frozen=True)
class Course:
    """Two curves over the same time: the tokens left (on a logarithmic scale) and the candidates judged so far."""

    tokens: str
    points: tuple[Point, ...]
    candidates: str
    most: int
    least: int
    judged: int
    seconds: float
    width: float
    height: float
    upper: tuple[float, float]
    lower: tuple[float, float]


def timeline(diagnosis: Diagnosis) -> Timeline:
    """The saved tensor's version counter: saved, each write, needed. Of many writes the middle ones are one event."""
    told = list(_events(diagnosis))
    versions = sorted({version for _, version, _ in told})
    span = min(len(versions) - 1, _COLUMNS) * _COLUMN
    columns = {version: _LEFT + span * number / max(1, len(versions) - 1) for number, version in enumerate(versions)}
    events = tuple(
        Event(role, version, *_named(who), columns[version], _TOP + number * _ROW)
        for number, (role, version, who) in enumerate(told)
    )
    path = f"M{events[0].x:g},{events[0].y:g}" + "".join(f" V{e.y:g} H{e.x:g}" for e in events[1:])
    return Timeline(events, path, _LEFT + span + 20, 380, _TOP * 2 + (len(events) - 1) * _ROW)


def _events(diagnosis: Diagnosis) -> Iterator[tuple[str, int, Statement | str | None]]:
    """Role, version from then on, and who did it."""
    yield "saved", diagnosis.failure.expected_version, diagnosis.saved
    rises = diagnosis.rises
    left_out = rises[_FIRST:-_LAST] if len(rises) > _FIRST + _LAST + 1 else ()
    for number, rise in enumerate(rises):
        if rise not in left_out:
            yield ("changed" if number == 0 else "again"), rise.after, rise.statement
        elif rise is left_out[0]:
            yield "again", left_out[-1].after, f"{len(left_out)} more writes"
    yield "needed", diagnosis.failure.version, diagnosis.needed


def _named(who: Statement | str | None) -> tuple[str, str]:
    if isinstance(who, Statement):
        return place(who), first_line(who)
    return (who or "not known"), ""


def graph(vertices: Sequence[Vertex]) -> Graph:
    """The piece of graph in layers; leaves that the same nodes feed, and that nothing tells apart, share one box."""
    groups = _alike(vertices)
    layers: dict[int, list[int]] = {}
    for first in groups:
        layers.setdefault(_depth(vertices, first), []).append(first)
    width = max(map(len, layers.values()), default=0) * (_NODE_WIDTH + _GAP) + _GAP
    boxes: dict[int, Box] = {}
    for row, (_, layer) in enumerate(sorted(layers.items())):
        ordered = sorted(layer, key=lambda one: _middle(one, vertices, boxes))
        start = (width - len(ordered) * (_NODE_WIDTH + _GAP) + _GAP) / 2
        for column, one in enumerate(ordered):
            x, y = start + column * (_NODE_WIDTH + _GAP), _GAP + row * (_NODE_HEIGHT + _LEVEL)
            boxes[one] = _box(vertices, one, len(groups[one]), x, y)
    edges = tuple(
        _edge(boxes[one], boxes[other])
        for one in boxes
        for other in dict.fromkeys(vertices[one].feeds)
        if other in boxes
    )
    height = len(layers) * (_NODE_HEIGHT + _LEVEL) - _LEVEL + 2 * _GAP
    return Graph(tuple(boxes.values()), edges, width, height)


def _alike(vertices: Sequence[Vertex]) -> dict[int, list[int]]:
    """The first of each group of nodes that are drawn as one, and the group."""
    feeders = {
        number: tuple(other for other, vertex in enumerate(vertices) if number in vertex.feeds)
        for number in range(len(vertices))
    }
    groups: dict[object, list[int]] = {}
    for number, vertex in enumerate(vertices):
        known = vertex.statement is not None or vertex.feeds or number == 0
        groups.setdefault(number if known else (vertex.name, feeders[number]), []).append(number)
    return {group[0]: group for group in groups.values()}


def _depth(vertices: Sequence[Vertex], number: int) -> int:
    """How many edges the longest way to a node has."""
    above = [other for other, vertex in enumerate(vertices) if number in vertex.feeds]
    return max((_depth(vertices, other) + 1 for other in above), default=0)


def _middle(number: int, vertices: Sequence[Vertex], boxes: dict[int, Box]) -> float:
    """The mean place of the boxes that feed a node."""
    above = [box.x for other, box in boxes.items() if number in vertices[other].feeds]
    return sum(above) / len(above) if above else 0.0


def _box(vertices: Sequence[Vertex], number: int, count: int, x: float, y: float) -> Box:
    vertex = vertices[number]
    name = vertex.name.removeprefix(_COMMON) + (f" ({count})" if count > 1 else "")
    role = "stale" if number == 0 else "start" if vertex.start else ""
    where = "backward begins here" if vertex.start else ""
    return Box(name, place(vertex.statement) if vertex.statement else where, role, x, y, _NODE_WIDTH, _NODE_HEIGHT)


def _edge(above: Box, below: Box) -> str:
    x, y, to_x, to_y = above.x + above.width / 2, above.y + above.height, below.x + below.width / 2, below.y - 5
    middle = (y + to_y) / 2
    return f"M{x:g},{y:g} C{x:g},{middle:g} {to_x:g},{middle:g} {to_x:g},{to_y:g}"


def course(steps: Sequence[Step], tokens: Sequence[int], judged: Sequence[float]) -> Course:
    """The curves of a search: `tokens` are those of the program of each step, `judged` when each candidate was."""
    width, height, left, right = 380.0, 230.0, 38.0, 10.0
    upper, lower = (16.0, 116.0), (142.0, 206.0)
    seconds = max([*judged, *(step.seconds for step in steps)], default=0.0) or 1.0

    def x(moment: float) -> float:
        return left + (width - left - right) * moment / seconds

    most, least = max(tokens), min(tokens)
    scale = math.log(most / least) or 1.0
    ys = [upper[1] - (upper[1] - upper[0]) * math.log(count / least) / scale for count in tokens]
    points = tuple(Point(x(step.seconds), y, number) for number, (step, y) in enumerate(zip(steps, ys, strict=True)))
    down = f"M{points[0].x:.1f},{ys[0]:.1f}" + "".join(f" H{p.x:.1f} V{p.y:.1f}" for p in points[1:])
    rise = (lower[1] - lower[0]) / max(1, len(judged))
    every = math.ceil(len(judged) / _POINTS)
    up = f"M{left:g},{lower[1]:g}" + "".join(
        f" H{x(moment):.1f} V{lower[1] - rise * number:.1f}"
        for number, moment in enumerate(judged, 1)
        if number % every == 0 or number == len(judged)
    )
    end = f" H{width - right:g}"
    return Course(down + end, points, up + end, most, least, len(judged), seconds, width, height, upper, lower)
