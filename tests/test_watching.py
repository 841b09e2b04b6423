"""`watch`: the exception itself says where the tensor was saved, changed and needed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest
import torch
from torch.autograd import Variable

import shrinkrepro
from shrinkrepro.watching import UserFiles, note_of

HERE = "tests/test_watching.py"


def fail() -> None:
    h = torch.ones(2, requires_grad=True).exp()
    h += 1
    h.sum().backward()


def succeed() -> float:
    h = torch.ones(2, requires_grad=True).exp()
    h.sum().backward()
    return 3.0


def failure_of(run: Callable[[], object], around: AbstractContextManager[object] | None = None) -> RuntimeError:
    with pytest.raises(RuntimeError) as caught, around or nullcontext():
        run()
    return caught.value


@pytest.fixture(autouse=True)
def in_the_repository(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.chdir(request.config.rootpath)


def places(note: str) -> list[str]:
    """The role and the place on each line of a note after its heading."""
    first = fail.__code__.co_firstlineno
    lines = [line.split(": ")[0] for line in note.splitlines()[1:]]
    return [
        line.replace(f"{HERE}:{first + n}", str(n)) for line in lines for n in range(1, 4) if f":{first + n} " in line
    ]


def test_the_failure_carries_a_note_with_the_three_places() -> None:
    note = note_of(failure_of(fail, shrinkrepro.watch()))
    assert [" ".join(line.split()) for line in places(note)] == [
        "saved 1 in fail",
        "changed 2 in fail",
        "needed 3 in fail",
    ]


def test_the_culprit_is_marked() -> None:
    marked = [line for line in note_of(failure_of(fail, shrinkrepro.watch())).splitlines() if "culprit" in line]
    assert [line.partition(": ")[2] for line in marked] == ["h += 1  <- the culprit"]


@pytest.mark.parametrize("decorate", [shrinkrepro.watch, shrinkrepro.watch()], ids=["bare", "called"])
def test_a_decorated_function_is_watched(decorate: Callable[[Callable[[], None]], Callable[[], None]]) -> None:
    assert note_of(failure_of(decorate(fail)))


def test_a_decorated_function_stays_what_it_was() -> None:
    watched = shrinkrepro.watch(succeed)
    assert (watched.__name__, watched()) == ("succeed", 3.0)


def test_watches_in_one_another_say_it_once() -> None:
    problem = failure_of(shrinkrepro.watch(fail), shrinkrepro.watch())
    assert "\n".join([str(problem), *getattr(problem, "__notes__", ())]).count("the culprit") == 1


def test_an_unwatched_failure_has_no_note() -> None:
    assert note_of(failure_of(fail)) == ""


def test_another_error_is_left_alone() -> None:
    problem = failure_of(lambda: torch.ones(2).view(3), shrinkrepro.watch())
    assert not hasattr(problem, "__notes__")


def test_what_was_saved_before_the_watch_began_is_said_to_be_out_of_sight() -> None:
    h = torch.ones(2, requires_grad=True).exp()

    def rest() -> None:
        h.add_(1)
        h.sum().backward()

    saved, changed, _ = note_of(failure_of(rest, shrinkrepro.watch())).splitlines()[1:]
    assert saved.startswith("  saved    out of sight")
    assert changed.endswith("h.add_(1)  <- the culprit")


def test_pytorch_is_as_before_after_the_watch() -> None:
    before = Variable._execution_engine, torch.autograd.Function.apply, torch.nn.Module.__init__
    failure_of(fail, shrinkrepro.watch())
    assert (Variable._execution_engine, torch.autograd.Function.apply, torch.nn.Module.__init__) == before


def test_a_watch_can_be_entered_again() -> None:
    watch = shrinkrepro.watch()
    assert [bool(note_of(failure_of(fail, watch))) for _ in range(2)] == [True, True]


def test_a_generator_cannot_be_decorated() -> None:
    def steps() -> object:
        yield

    with pytest.raises(TypeError, match="use `with watch"):
        shrinkrepro.watch(steps)


@pytest.mark.parametrize("file", [torch.__file__, pytest.__file__, __import__("json").__file__, "<string>"])
def test_libraries_are_not_the_users_files(file: str) -> None:
    assert file not in UserFiles()


def test_a_file_below_the_current_folder_is_shown_by_its_relative_path() -> None:
    assert UserFiles()[__file__] == HERE


def test_a_cell_is_shown_as_jupyter_calls_it() -> None:
    assert UserFiles()["<ipython-input-7-0123abcd>"] == "In[7]"
