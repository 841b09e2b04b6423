"""The poller names the line after which a saved tensor's version rose, where no torch function call shows the write."""

from __future__ import annotations

import dataclasses
import linecache
import sys
import textwrap
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from torch.autograd import Variable

from shrinkrepro.runtime.messages import Trace
from shrinkrepro.runtime.poller import Poller
from shrinkrepro.runtime.tracer import Tracer

MAIN = "/polled/main.py"
PHRASE = "modified by an inplace operation"


@pytest.fixture(autouse=True)
def source_lines() -> Iterator[None]:
    """Scripted functions look for their own source text."""
    yield
    linecache.cache.pop(MAIN, None)


def run(source: str, watcher: Tracer | Poller) -> Trace | None:
    """Run a program under `watcher` up to its end or its error; what was found if it failed."""
    text = textwrap.dedent(source)
    linecache.cache[MAIN] = (len(text), None, text.splitlines(keepends=True), MAIN)
    engine, found = Variable._execution_engine, []

    class Engine:
        def __getattr__(self, name: str) -> Any:
            return getattr(engine, name)

        def run_backward(self, *arguments: Any, **keywords: Any) -> Any:
            try:
                return engine.run_backward(*arguments, **keywords)
            except RuntimeError as problem:
                if PHRASE in str(problem):
                    found.append(watcher.failed(str(problem)))
                raise

    Variable._execution_engine = Engine()  # type: ignore[assignment]
    try:
        with watcher:
            exec(compile(text, MAIN, "exec"), {"__name__": "__main__"})
    except RuntimeError as problem:
        if PHRASE not in str(problem):
            raise
    finally:
        Variable._execution_engine = engine
    return found[0] if found else None


def polled(source: str) -> Trace:
    """What the poller finds, given what the tracer found."""
    first = run(source, Tracer({MAIN: "main.py"}))
    assert first is not None, "the program does not fail under the tracer"
    found = run(source, Poller({MAIN: "main.py"}, dataclasses.asdict(first)))
    assert found is not None, "the program does not fail under the poller"
    return found


def marked(source: str, word: str) -> int:
    lines = textwrap.dedent(source).splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {word}"))


SCRIPTED = """
    import torch
    @torch.jit.script
    def bump(x: torch.Tensor):
        x.add_(1)
"""
PROGRAMS = {
    "scripted function": SCRIPTED
    + """
    h = torch.ones(3, requires_grad=True).sigmoid()  # saved
    bump(h)  # culprit
    h.sum().backward()
""",
    "last line of a function": SCRIPTED
    + """
    def spoil(h):
        bump(h)  # culprit
    def main():
        h = torch.ones(3, requires_grad=True).sigmoid()  # saved
        spoil(h)
        return h.sum()
    main().backward()
""",
    "argument of a call": """
    import torch
    @torch.jit.script
    def bump(x: torch.Tensor):
        x.add_(1)
        return x
    def total(x):
        a = x.shape
        return x.sum()
    h = torch.ones(3, requires_grad=True).sigmoid()  # saved
    loss = total(bump(h))  # culprit
    loss.backward()
""",
    "loop, after other calls": SCRIPTED
    + """
    scale = torch.ones(3)
    w = torch.ones(3, requires_grad=True)
    loss = 0
    for _ in range(3):
        loss = loss + (w * scale).sum()  # saved
        w2 = w * 2
        bump(scale)  # culprit
    loss.backward()
""",
    "between writes that calls show": SCRIPTED
    + """
    h = torch.ones(3, requires_grad=True).sigmoid()  # saved
    bump(h)  # culprit
    h.mul_(2)
    h.sum().backward()
""",
    "another thread": SCRIPTED
    + """
    import threading
    h = torch.ones(3, requires_grad=True).sigmoid()  # saved
    def work():
        alias = h.detach()
        bump(alias)  # culprit
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    h.sum().backward()
""",
    "hook in the failing pass": SCRIPTED
    + """
    h = torch.ones(3, requires_grad=True).sigmoid()  # saved
    y = h * 2
    def spoil(gradient):
        bump(h.detach())  # culprit
    y.register_hook(spoil)
    y.sum().backward()
""",
}


@pytest.mark.parametrize("source", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_the_tracer_alone_cannot_name_the_culprit(source: str) -> None:
    first = run(source, Tracer({MAIN: "main.py"}))
    assert first is not None and first.mutations == ()


@pytest.mark.parametrize("source", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_the_line_that_wrote_unseen_is_named(source: str) -> None:
    found = polled(source)
    assert found.mutations, found
    assert found.mutations[0].place.stack[0].line == marked(source, "culprit")


def test_the_saving_line_is_that_of_the_tracer() -> None:
    source = PROGRAMS["loop, after other calls"]
    saved = polled(source).saved
    assert saved is not None and saved.stack[0].line == marked(source, "saved")


def test_the_method_is_polling() -> None:
    assert polled(PROGRAMS["scripted function"]).method == "polling"


def test_an_unseen_write_has_no_operator_and_no_step() -> None:
    place = polled(PROGRAMS["scripted function"]).mutations[0].place
    assert (place.operator, place.step) == ("", 0)


def test_unseen_and_seen_writes_make_one_history() -> None:
    found = polled(PROGRAMS["between writes that calls show"])
    assert [(write.before, write.after, write.place.operator) for write in found.mutations] == [
        (0, 1, ""),
        (1, 2, "mul_"),
    ]


def test_a_write_that_a_call_shows_is_named_as_by_the_tracer() -> None:
    source = """
        import torch
        h = torch.ones(3, requires_grad=True).sigmoid()
        h.add_(1)
        h.sum().backward()
    """
    first = run(source, Tracer({MAIN: "main.py"}))
    assert first is not None and polled(source).mutations == first.mutations


SHY = """
    import torch
    def main():
        w = torch.ones(3, requires_grad=True)
        h = torch.sigmoid(w)  # saved
        if torch._C._len_torch_function_stack() == 0:
            h.add_(1)  # culprit
        return h.sum()
    loss = main()
    loss.backward()
"""


def test_a_failure_that_the_tracer_hides_is_found_from_the_message_alone() -> None:
    assert run(SHY, Tracer({MAIN: "main.py"})) is None
    message = f"{PHRASE}: [torch.FloatTensor [3]], which is output 0 of Sigmoid, is at version 1; expected version 0"
    found = run(SHY, Poller({MAIN: "main.py"}, {"message": message}))
    assert found is not None and found.saved is not None
    lines = found.saved.stack[0].line, found.mutations[0].place.stack[0].line
    assert lines == (marked(SHY, "saved"), marked(SHY, "culprit"))


def test_leaving_the_poller_restores_the_trace_functions() -> None:
    before = sys.gettrace(), threading.gettrace()
    with Poller({}, {"message": ""}):
        pass
    assert (sys.gettrace(), threading.gettrace()) == before


def test_library_code_is_not_followed() -> None:
    followed = []
    with Poller({MAIN: "main.py"}, {"message": ""}) as poller:
        followed.append(poller._called(sys._getframe(), "call", None))
    assert followed == [None]


def test_tensors_that_cannot_be_meant_are_not_watched() -> None:
    source = """
        import torch
        w = torch.ones(5, requires_grad=True)
        loss = w.exp().sum()
    """
    message = f"{PHRASE}: [torch.FloatTensor [3]] is at version 1; expected version 0 instead."
    poller = Poller({MAIN: "main.py"}, {"message": message, "node": "ExpBackward0"})
    run(source, poller)
    assert poller._watched == []


def test_the_watch_ends_with_the_graph() -> None:
    source = """
        import torch
        w = torch.ones(3, requires_grad=True)
        for _ in range(5):
            w.exp().sum().backward()
        done = 1
    """
    message = f"{PHRASE}: [torch.FloatTensor [3]] is at version 1; expected version 0 instead."
    poller = Poller({MAIN: "main.py"}, {"message": message, "node": "ExpBackward0"})
    run(source, poller)
    assert poller._watched == []
