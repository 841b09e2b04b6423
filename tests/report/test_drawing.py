from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from shrinkrepro.diagnosis import Rise, Vertex
from shrinkrepro.program.source import Program
from shrinkrepro.report.drawing import course, graph, timeline
from shrinkrepro.results import Explanation, Step

PROGRAM = Program.of("import torch\n")


def test_the_time_line_goes_from_saved_over_each_write_to_needed(explanation: Explanation) -> None:
    events = timeline(explanation.diagnosis).events
    assert [(event.role, event.version) for event in events] == [
        ("saved", 0), ("changed", 1), ("again", 2), ("again", 3), ("needed", 1)
    ]  # fmt: skip
    assert [event.where for event in events] == ["train.py:4", "train.py:5", "not known", "train.py:7", "train.py:9"]


def test_a_higher_version_is_further_right_and_a_later_event_further_down(explanation: Explanation) -> None:
    events = timeline(explanation.diagnosis).events
    assert [event.y for event in events] == sorted(event.y for event in events)
    assert sorted(events[:4], key=lambda event: event.x) == list(events[:4])


def test_of_many_writes_the_middle_ones_are_one_event(explanation: Explanation) -> None:
    many = replace(explanation.diagnosis, rises=tuple(Rise(None, number, number + 1) for number in range(100)))
    drawn = timeline(many)
    assert [event.where for event in drawn.events if "more" in event.where] == ["93 more writes"]
    assert len(drawn.events) == 10
    assert max(event.x for event in drawn.events) < drawn.text_x


def test_nodes_stand_above_those_that_they_feed(explanation: Explanation) -> None:
    boxes = {box.name: box for box in graph(explanation.diagnosis.graph).boxes}
    assert boxes["SumBackward0"].y < boxes["ExpBackward0"].y < boxes["AccumulateGrad"].y
    assert (boxes["ExpBackward0"].role, boxes["SumBackward0"].role) == ("stale", "start")


def test_no_box_covers_another_and_all_are_inside() -> None:
    feeds = [(3, 4, 5), (0,), (0, 4), (), (), (6,), ()]
    drawn = graph([Vertex(f"N{number}", fed, False, None) for number, fed in enumerate(feeds)])
    for one, two in combinations(drawn.boxes, 2):
        assert abs(one.x - two.x) >= one.width or abs(one.y - two.y) >= one.height
    assert all(box.x >= 0 and box.x + box.width <= drawn.width for box in drawn.boxes)
    assert all(box.y >= 0 and box.y + box.height <= drawn.height for box in drawn.boxes)


def test_leaves_that_nothing_tells_apart_share_a_box_and_an_edge() -> None:
    leaf = Vertex("torch::autograd::AccumulateGrad", (), False, None)
    drawn = graph([Vertex("AddmmBackward0", (1, 2, 3), False, None), leaf, leaf, leaf])
    assert [box.name for box in drawn.boxes] == ["AddmmBackward0", "AccumulateGrad (3)"]
    assert len(drawn.edges) == 1


def test_the_curves_begin_and_end_at_the_edges_of_their_scales() -> None:
    steps = [Step(PROGRAM, "", 0.0, 0), Step(PROGRAM, "distil", 1.0, 4), Step(PROGRAM, "drop", 2.0, 8)]
    drawn = course(steps, [1000, 100, 10], [0.5, 1.0, 2.0, 4.0])
    assert [round(point.y) for point in drawn.points] == [16, 66, 116]
    assert drawn.candidates.split("V")[-1].startswith("142.0")
    assert drawn.seconds == 4.0


def test_a_long_search_has_a_curve_of_bounded_length() -> None:
    drawn = course([Step(PROGRAM, "", 0.0, 0)], [10], [number / 1000 for number in range(100_000)])
    assert drawn.candidates.count("V") <= 401
    assert drawn.candidates.split("V")[-1].startswith("142.0")
