"""The tracer names who saved, who changed and who needed a tensor, for every way in which PyTorch lets it happen.

Programs are text with `# saved`, `# culprit` and `# needed` at the lines that the tracer must name.
"""

from __future__ import annotations

import gc
import linecache
import sys
import textwrap
import threading
from typing import Any

import pytest
import torch
from torch.autograd import Variable

from shrinkrepro.runtime import graph
from shrinkrepro.runtime.messages import Place, Trace
from shrinkrepro.runtime.tracer import Tracer

MAIN = "/program/main.py"
PHRASE = "modified by an inplace operation"


class Engine:
    """What the runner does: asks the tracer inside the first failing pass."""

    def __init__(self, engine: Any, tracer: Tracer | None) -> None:
        self.engine, self.tracer = engine, tracer
        self.message: str | None = None
        self.trace: Trace | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def run_backward(self, *arguments: Any, **keywords: Any) -> Any:
        try:
            return self.engine.run_backward(*arguments, **keywords)
        except RuntimeError as problem:
            if PHRASE in str(problem) and self.message is None:
                self.message = str(problem)
                self.trace = None if self.tracer is None else self.tracer.failed(self.message)
            raise


def run(source: str, tracer: Tracer | None) -> Engine:
    """Run a program up to its end or its error."""
    engine = Engine(Variable._execution_engine, tracer)
    code = compile(textwrap.dedent(source), MAIN, "exec")
    Variable._execution_engine = engine  # type: ignore[assignment]
    try:
        if tracer is None:
            exec(code, {"__name__": "__main__"})
        else:
            with tracer:
                exec(code, {"__name__": "__main__"})
    except RuntimeError as problem:
        if PHRASE not in str(problem):
            raise
    finally:
        Variable._execution_engine = engine.engine
    return engine


def trace(source: str) -> Trace:
    found = run(source, Tracer({MAIN: "main.py"})).trace
    assert found is not None, "the program did not fail"
    return found


def marked(source: str, word: str) -> int:
    lines = textwrap.dedent(source).splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {word}"))


def line(place: Place | None) -> int | None:
    return None if place is None else place.stack[0].line


def culprit(found: Trace) -> Place:
    assert found.mutations, found
    return found.mutations[0].place


ACTIVATION = """
    import torch
    w = torch.ones(3, requires_grad=True)
    h = torch.sigmoid(w)  # saved
    h += 1  # culprit
    h.sum().backward()  # needed
"""
LEAF = """
    import torch
    w = torch.ones(3, requires_grad=True)
    x = torch.ones(3, requires_grad=True)
    y = w * x  # saved
    with torch.no_grad():
        w.mul_(2)  # culprit
    y.sum().backward()  # needed
"""
BUFFER = """
    import torch
    scale = torch.ones(3)
    w = torch.ones(3, requires_grad=True)
    y = w * scale  # saved
    scale[0] = 2  # culprit
    y.sum().backward()  # needed
"""
OPTIMIZER = """
    import torch
    a, b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD([*a.parameters(), *b.parameters()], lr=0.1)
    loss = b(a(torch.ones(1, 2))).sum()  # saved
    loss.backward(retain_graph=True)
    optimizer.step()  # culprit
    loss.backward()  # needed
"""
CHECKPOINT_OF_A_SAVED_RESULT = """
    import torch
    from torch.utils.checkpoint import checkpoint
    w = torch.ones(3, requires_grad=True)
    h = w.tanh()
    y = checkpoint(torch.sin, h, use_reentrant=False)  # saved
    h.detach().add_(1)  # culprit
    y.sum().backward()  # needed
"""
RESIZED = """
    import torch
    x = torch.ones(4, 4, requires_grad=True)
    row = torch.ones(4)
    y = x.log()  # saved
    with torch.no_grad():
        torch.sub(row, 1, out=x)  # culprit
    other = torch.zeros(4)
    other.add_(1)
    y.sum().backward()  # needed
"""
MAX_NORM = """
    import torch
    table = torch.nn.Embedding(4, 3, max_norm=0.5)
    y = table.weight.pow(2)  # saved
    z = table(torch.tensor([1, 2]))  # culprit
    (y.sum() + z.sum()).backward()  # needed
"""
OUT = """
    import torch
    x = torch.ones(2, 2)
    buffer = torch.empty(2, 2)
    w = torch.ones(2, 2, requires_grad=True)
    torch.matmul(x, x, out=buffer)
    y = buffer @ w  # saved
    torch.matmul(x, x, out=buffer)  # culprit
    y.sum().backward()  # needed
"""
COPY_SLICES = """
    import torch
    w = torch.ones(2, 4, requires_grad=True)
    gates = w * 1
    gates[:, :2].sigmoid_()  # saved
    gates[:, 2:].tanh_()  # culprit
    gates.sum().backward()  # needed
"""
MAPPED = """
    import torch
    w = torch.ones(2, 2, requires_grad=True) * 1
    h = torch.vmap(lambda row: row * row.sum())(w)  # saved
    w *= 2  # culprit
    (h * 1).sum().backward()  # needed
"""
GRADIENT_OF_A_FUNCTION = """
    import torch
    w = torch.ones(2, 2, requires_grad=True) * 1
    h = torch.func.grad(lambda t: (t ** 3).sum())(w)  # saved
    w[0] += 1  # culprit
    (h * 1).sum().backward()  # needed
"""
WRITTEN_BY_A_MAP = """
    import torch
    w = torch.ones(2, 2, requires_grad=True)
    h = w.exp()  # saved
    torch.vmap(lambda row: row.mul_(2))(h)  # culprit
    h.sum().backward()  # needed
"""
CUSTOM = """
    import torch
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.save_for_backward(y)
            return y
        @staticmethod
        def backward(ctx, g):
            y, = ctx.saved_tensors
            return g * y
    w = torch.ones(3, requires_grad=True)
    y = Double.apply(w * 1)  # saved
    w2 = w * 3
    y.add_(1)  # culprit
    y.sum().backward()  # needed
"""
CUSTOM_KEEPS_AN_ALIAS = """
    import torch
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.save_for_backward(y.detach())
            return y
        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]
    w = torch.ones(3, requires_grad=True)
    y = Double.apply(w)  # saved
    y.add_(1)  # culprit
    y.sum().backward()  # needed
"""
CHECKPOINT = """
    import torch
    from torch.utils.checkpoint import checkpoint
    w = torch.ones(3, requires_grad=True)
    x = w * 1
    y = checkpoint(torch.sin, x, use_reentrant=False)  # saved
    x += 1  # culprit
    y.sum().backward()  # needed
"""
CHECKPOINT_REENTRANT = CHECKPOINT.replace("use_reentrant=False", "use_reentrant=True")
GRAD_OF_GRAD = """
    import torch
    x = torch.ones(3, requires_grad=True)
    g, = torch.autograd.grad((x ** 3).sum(), x, create_graph=True)
    energy = g.pow(2).sum()  # saved
    g.mul_(2)  # culprit
    torch.autograd.grad(energy, x)  # needed
"""
SAVED_BY_A_BACKWARD_PASS = """
    import torch
    w = torch.ones(2, 2, requires_grad=True)
    v = torch.ones(2, 2, requires_grad=True) * 1
    loss = (w @ v).pow(2).sum()
    g, = torch.autograd.grad(loss, w, create_graph=True)  # saved
    v.sub_(1)  # culprit
    g.sum().backward()  # needed
"""
SAVED_BY_CREATE_GRAPH = """
    import torch
    w = torch.ones(2, 2, requires_grad=True)
    u = torch.ones(2, 2, requires_grad=True)
    (w @ u).pow(3).sum().backward(create_graph=True)  # saved
    with torch.no_grad():
        u.sub_(1)  # culprit
    w.grad.sum().backward()  # needed
"""
SWALLOWED = """
    import torch
    w = torch.ones(3, requires_grad=True)
    h = w.exp()  # saved
    h.zero_()  # culprit
    try:
        h.sum().backward()  # needed
    except RuntimeError as error:
        print(error)
"""
FOREACH = """
    import torch
    w = torch.ones(3, requires_grad=True)
    teacher = torch.ones(3)
    y = w * teacher  # saved
    torch._foreach_lerp_([teacher], [w.detach()], 0.5)  # culprit
    y.sum().backward()  # needed
"""
MODULE_IN_PLACE = """
    import torch
    act = torch.nn.ReLU(inplace=True)  # built
    w = torch.ones(3, requires_grad=True)
    h = torch.sigmoid(w)  # saved
    y = act(h)  # culprit
    y.sum().backward()  # needed
"""
FUNCTIONAL_DROPOUT = """
    import torch
    import torch.nn.functional as F
    w = torch.ones(3, requires_grad=True)
    h = torch.sigmoid(w)  # saved
    F.dropout(h, 0.5, inplace=True)  # culprit
    h.sum().backward()  # needed
"""
THREAD = """
    import threading, torch
    w = torch.ones(3, requires_grad=True)
    h = torch.sigmoid(w)  # saved
    def work():
        h.detach().add_(1)  # culprit
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    h.sum().backward()  # needed
"""
HOOK_IN_BACKWARD = """
    import torch
    w = torch.ones(3, requires_grad=True)
    h = torch.sigmoid(w)  # saved
    y = h * 2
    def spoil(gradient):
        h.detach().add_(1)  # culprit
    y.register_hook(spoil)
    y.sum().backward()  # needed
"""
LOOP = """
    import torch
    state = torch.zeros(3)
    w = torch.ones(3, requires_grad=True)
    loss = 0
    for step in range(4):
        loss = loss + (w * state).sum()  # saved
        state += 1  # culprit
    loss.backward()  # needed
"""
PROJECT_FUNCTIONS = """
    import torch
    def save(w):
        return torch.tanh(w)  # saved
    def spoil(h):
        h.neg_()  # culprit
    def main():
        h = save(torch.ones(3, requires_grad=True))
        spoil(h)
        torch.autograd.backward([h.sum()])  # needed
    main()
"""
VIEW_OUTPUT = """
    import torch
    w = torch.ones(2, 272, 768, requires_grad=True)
    x = w * 1
    flat = x.view(544, 768)
    y = flat.pow(3)  # saved
    with torch.no_grad():
        flat *= 0.5  # culprit
    y.sum().backward()  # needed
"""
CLASS_WEIGHTS = """
    import torch
    import torch.nn.functional as F
    logits = torch.zeros(4, 3, requires_grad=True)
    weights = torch.ones(3)
    loss = F.cross_entropy(logits, torch.tensor([0, 1, 2, 0]), weight=weights)  # saved
    for i in range(6):
        weights.mul_(1.1)  # culprit
    try:
        loss.backward()  # needed
    except RuntimeError as error:
        print(error)
"""

PROGRAMS = {
    name.lower(): source
    for name, source in list(globals().items())
    if name.isupper() and isinstance(source, str) and "# culprit" in source
}


@pytest.mark.parametrize("source", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_saving_changing_and_needing_lines_are_named(source: str) -> None:
    found = trace(source)
    assert (line(found.saved), line(culprit(found)), line(found.needed)) == tuple(
        marked(source, word) for word in ("saved", "culprit", "needed")
    )


@pytest.mark.parametrize("source", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_the_traced_program_fails_in_the_words_of_the_plain_one(source: str) -> None:
    assert trace(source).message == run(source, None).message


@pytest.mark.parametrize(
    ("source", "operator"),
    [
        (ACTIVATION, "add_"),
        (BUFFER, "__setitem__"),
        (OUT, "matmul"),
        (MAX_NORM, "embedding"),
        (FOREACH, "_foreach_lerp_"),
        (FUNCTIONAL_DROPOUT, "dropout"),
        (COPY_SLICES, "tanh_"),
    ],
)
def test_the_write_is_named_as_torch_calls_it(source: str, operator: str) -> None:
    assert culprit(trace(source)).operator == operator


@pytest.mark.parametrize(
    ("source", "node", "attribute"),
    [
        (ACTIVATION, "SigmoidBackward0", "_saved_result"),
        (CUSTOM, "DoubleBackward", "saved_tensors"),
        (COPY_SLICES, "torch::autograd::CopySlices", None),
        (CHECKPOINT, "SinBackward0", "_saved_self"),
    ],
)
def test_the_stale_node_and_attribute_are_named(source: str, node: str, attribute: str | None) -> None:
    found = trace(source)
    assert (found.node, found.attribute) == (node, attribute)


def test_the_method_tells_a_stale_attribute_from_an_inference() -> None:
    assert [trace(source).method for source in (ACTIVATION, COPY_SLICES)] == ["stale", "arithmetic"]


def test_library_code_that_wrote_is_named_by_its_innermost_frame() -> None:
    library = culprit(trace(OPTIMIZER)).library
    assert library is not None and library.function == "_single_tensor_sgd"


def test_a_call_made_by_the_program_itself_has_no_library_frame() -> None:
    assert culprit(trace(FUNCTIONAL_DROPOUT)).library is None


def test_a_module_that_writes_in_place_is_traced_to_its_construction() -> None:
    assert line(trace(MODULE_IN_PLACE).built) == marked(MODULE_IN_PLACE, "built")


def test_a_write_by_no_module_was_built_nowhere() -> None:
    assert trace(ACTIVATION).built is None


def test_later_writes_are_listed_in_order_up_to_the_failure() -> None:
    found = trace(CLASS_WEIGHTS)
    assert [(write.before, write.after) for write in found.mutations] == [(n, n + 1) for n in range(6)]


def test_all_own_frames_are_listed_innermost_first() -> None:
    assert [frame.function for frame in culprit(trace(PROJECT_FUNCTIONS)).stack] == ["spoil", "main", "<module>"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python tells no columns")
def test_columns_count_characters() -> None:
    source = textwrap.dedent("""
        import torch
        w = torch.ones(3, requires_grad=True)
        h = torch.sigmoid(w)
        ü = "é"; h.add_(1)
        h.sum().backward()
    """)
    linecache.cache[MAIN] = (len(source), None, source.splitlines(keepends=True), MAIN)
    try:
        frame = culprit(trace(source)).stack[0]
    finally:
        del linecache.cache[MAIN]
    assert source.splitlines()[frame.line - 1][frame.column : frame.end_column] == "h.add_(1)"


def test_steps_name_the_same_calls_in_every_run() -> None:
    one, other = trace(OPTIMIZER), trace(OPTIMIZER)
    assert (culprit(one).step, one.saved) == (culprit(other).step, other.saved)


def test_a_write_through_data_is_no_culprit() -> None:
    source = ACTIVATION.replace("    h += 1", "    h.data.mul_(2)\n    h += 1")
    assert line(culprit(trace(source))) == marked(source, "culprit")


def test_a_write_before_the_save_is_no_culprit() -> None:
    source = BUFFER.replace("    y = w", "    scale.add_(1)\n    y = w")
    assert line(culprit(trace(source))) == marked(source, "culprit")


@pytest.mark.parametrize(
    ("write", "empty"),
    [
        ("y[0] = 0", False),
        ("y[3:] = 0", True),
        ("y[:3, None] = 0", False),
        ("y[y > 9] = 0", False),
        ("y[[]] = 0", True),
        ("y[3:].zero_()", True),
        ("y.index_fill_(0, torch.tensor([1]), 0)", False),
        ("y.index_fill_(0, torch.tensor([], dtype=torch.long), 0)", True),
        ("y += 0", False),
    ],
)
def test_a_write_to_no_element_is_told(write: str, empty: bool) -> None:
    source = f"import torch\nx = torch.ones(3, requires_grad=True)\ny = x.exp()\n{write}\ny.sum().backward()\n"
    assert trace(source).mutations[0].empty is empty


def test_a_graph_already_used_up_is_not_blamed() -> None:
    source = """
        import torch
        w = torch.ones(2, requires_grad=True)
        v = torch.ones(2, requires_grad=True)
        needed = (w * v).sum()  # saved
        consumed = (w * v).sum()
        consumed.backward()
        with torch.no_grad():
            v.add_(1)  # culprit
        needed.backward()  # needed
    """
    assert line(trace(source).saved) == marked(source, "saved")


def test_of_several_stale_tensors_the_one_that_the_engine_reached_is_named() -> None:
    source = """
        import torch
        w = torch.ones(2, requires_grad=True)
        v = torch.ones(2, requires_grad=True)
        one = (w * v).sum()
        other = (w * v).sum()  # saved
        with torch.no_grad():
            v.add_(1)
        (one + other).backward()
    """
    assert line(trace(source).saved) == marked(source, "saved")


def test_a_hidden_tensor_is_looked_for_below_the_failing_pass_first() -> None:
    source = """
        import torch
        x = torch.ones(3, requires_grad=True) * 1
        other = torch.ones(3, requires_grad=True) * 1
        x[:1].exp_()  # saved
        x += 1  # culprit
        other[:1].exp_()
        other += 1
        x.sum().backward()
    """
    found = trace(source)
    assert (line(found.saved), line(culprit(found))) == (marked(source, "saved"), marked(source, "culprit"))


@pytest.mark.parametrize("harmless", ["score[0] += 1", "score[0].neg_(), score.neg_()"])
def test_of_hidden_tensors_one_that_torch_would_save_is_named(harmless: str) -> None:
    found = trace(
        f"""
        import torch
        w = torch.ones(2, 2, requires_grad=True)
        grid = w.clone()
        grid[0].tanh_()
        score = w * 2
        {harmless}
        grid[1].neg_()
        (grid.sum() + score.sum()).backward()
        """
    )
    assert (line(found.saved), line(culprit(found))) == (5, 8)


@pytest.mark.parametrize(
    "write", ["x.mul_(x)", "x.div_(x)", "x.addmm_(x, x)", "x *= x.view(2, 2)", "x[0].mul_(x[0])", "x[0].div_(x[1])"]
)
def test_a_call_that_writes_to_what_it_saves_is_both_saving_and_culprit(write: str) -> None:
    found = trace(f"""
        import torch
        y = torch.ones(2, 2)
        x = torch.ones(2, 2, requires_grad=True) * 1
        {write}  # saved and written
        y += 1
        x.sum().backward()
        """)
    assert (line(found.saved), [line(mutation.place) for mutation in found.mutations]) == (5, [5])


@pytest.mark.parametrize(
    "definition",
    [
        "@torch.jit.script\ndef squash(x: torch.Tensor):\n    return torch.sigmoid(x)",
        "squash = torch.jit.trace(torch.nn.Sigmoid(), torch.ones(3))",
        "squash = torch.jit.script(torch.nn.Sigmoid())",
    ],
    ids=["a function", "a traced module", "a module"],
)
def test_what_compiled_code_saved_was_saved_where_it_was_called(definition: str) -> None:
    source = f"""
        import torch
{textwrap.indent(definition, " " * 8)}
        h = squash(torch.ones(3, requires_grad=True))  # saved
        h.add_(1)  # culprit
        h.sum().backward()
    """
    linecache.cache[MAIN] = (0, None, textwrap.dedent(source).splitlines(keepends=True), MAIN)
    try:
        found = trace(source)
    finally:
        del linecache.cache[MAIN]
    assert (line(found.saved), line(culprit(found))) == (marked(source, "saved"), marked(source, "culprit"))


def test_what_an_unseen_call_saved_is_known_once_its_result_is_used() -> None:
    source = """
        import torch
        with torch._C.DisableTorchFunction():
            h = torch.ones(3, requires_grad=True).sigmoid()
        alias = h.detach()  # saved
        alias.add_(1)  # culprit
        h.sum().backward()
    """
    found = trace(source)
    assert (line(found.saved), line(culprit(found))) == (marked(source, "saved"), marked(source, "culprit"))


@pytest.mark.parametrize(
    ("call", "operator"), [("torch.autograd.grad(h.sum(), w)", "grad"), ("h.sum().backward()", "backward")]
)
def test_a_pass_is_named_by_the_function_that_asks_for_it(call: str, operator: str) -> None:
    found = trace(
        f"""
        import torch
        w = torch.ones(3, requires_grad=True)
        h = w.exp()
        h.zero_()
        {call}
        """
    )
    assert found.needed is not None
    assert found.needed.operator == operator


def test_a_view_used_without_gradients_does_not_change_the_words() -> None:
    source = """
        import torch
        x = torch.ones(4, requires_grad=True) * 1
        view = x[:2]
        view.sigmoid_()
        x.add_(1)
        with torch.no_grad():
            view.sum()
        x.sum().backward()
    """
    assert trace(source).message == run(source, None).message


def test_a_write_that_no_call_shows_leaves_the_culprit_open_and_a_note() -> None:
    source = """
        import torch
        @torch.jit.script
        def bump(x: torch.Tensor):
            x.add_(1)
        h = torch.ones(3, requires_grad=True).sigmoid()
        bump(h)
        h.mul_(2)
        h.sum().backward()
    """
    linecache.cache[MAIN] = (0, None, textwrap.dedent(source).splitlines(keepends=True), MAIN)
    try:
        found = trace(source)
    finally:
        del linecache.cache[MAIN]
    assert (found.mutations, found.method, found.notes) == (
        (),
        "none",
        ("No torch function call shows what took the version from 0 to 1.",),
    )


def test_an_unknown_wording_is_reported_without_places() -> None:
    with Tracer({MAIN: "main.py"}) as tracer:
        found = tracer.failed(f"a variable was {PHRASE}, somehow")
    assert (found.saved, found.mutations, found.method, len(found.notes)) == (None, (), "none", 1)


def test_tensors_without_version_or_storage_do_no_harm() -> None:
    source = ACTIVATION.replace(
        "    h += 1",
        "    with torch.inference_mode(): torch.ones(2).add_(1)\n"
        "    torch.eye(2).to_sparse().mul_(2)\n"
        "    torch.ones(2, device='meta').add_(1)\n"
        "    h += 1",
    )
    assert line(culprit(trace(source))) == marked(source, "culprit")


def test_a_program_that_does_not_fail_runs_as_without_tracer() -> None:
    source = """
        import torch
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(inplace=True), torch.nn.Linear(8, 1))
        optimizer = torch.optim.Adam(net.parameters())
        for _ in range(5):
            optimizer.zero_grad()
            net(torch.randn(3, 4)).pow(2).mean().backward()
            optimizer.step()
        results.append(net[0].weight.detach().clone())
    """
    results: list[torch.Tensor] = []
    for tracer in (None, Tracer({MAIN: "main.py"})):
        code = compile(textwrap.dedent(source), MAIN, "exec")
        if tracer is None:
            exec(code, {"results": results})
        else:
            with tracer:
                exec(code, {"results": results})
    assert torch.equal(*results)


def test_leaving_the_tracer_undoes_every_patch() -> None:
    hooks = torch.autograd.graph.saved_tensors_hooks

    def patched() -> list[Any]:
        return [
            vars(torch.autograd.Function).get("apply"),
            vars(torch.nn.Module)["__init__"],
            vars(hooks)["__enter__"],
            vars(hooks)["__exit__"],
            vars(threading.Thread)["start"],
            Variable._execution_engine,
        ]

    before = patched()
    with Tracer({}):
        pass
    assert patched() == before


def test_what_is_known_of_a_graph_dies_with_it() -> None:
    tracer = Tracer({MAIN: "main.py"})
    source = """
        import torch
        w = torch.ones(3, requires_grad=True)
        for _ in range(50):
            h = torch.sigmoid(w).exp()  # evaluated, never consumed
        del h
    """
    run(source, tracer)
    gc.collect()
    assert len(tracer._records) == 0


def test_a_consumed_graph_that_the_program_keeps_is_forgotten() -> None:
    tracer = Tracer({MAIN: "main.py"})
    source = """
        import torch
        w = torch.ones(3, requires_grad=True)
        losses = []
        for _ in range(50):
            losses.append(torch.sigmoid(w).exp().sum())
            losses[-1].backward()
        kept.extend(losses)
    """
    kept: list[torch.Tensor] = []
    with tracer:
        exec(compile(textwrap.dedent(source), MAIN, "exec"), {"kept": kept})
    assert (len(kept), len(tracer._records)) == (50, 0)


def test_written_memory_is_not_kept_alive() -> None:
    tracer = Tracer({MAIN: "main.py"})
    with tracer:
        tensor = torch.ones(8)
        tensor.add_(1)
        memory = graph.storage(tensor)
        assert memory is not None
        weak = torch.multiprocessing.reductions.StorageWeakRef(memory)  # type: ignore[no-untyped-call]
        del tensor, memory
    assert weak.expired()  # type: ignore[no-untyped-call]


def test_the_log_of_writes_stays_bounded_over_a_long_run() -> None:
    tracer = Tracer({MAIN: "main.py"})
    source = """
        import torch
        w = torch.ones(3)
        for _ in range(10000):
            w.add_(1)
            torch.zeros(2).add_(1)
    """
    run(source, tracer)
    assert len(tracer._writes) <= 4096


def test_a_long_lived_graph_keeps_its_first_writes_and_bounds_the_rest() -> None:
    source = """
        import torch
        w = torch.ones(3, requires_grad=True)
        scale = torch.ones(3)
        y = w * scale
        scale.add_(1)  # culprit
        for _ in range(20000):
            scale.mul_(1)
        y.sum().backward()
    """
    tracer = Tracer({MAIN: "main.py"})
    found = run(source, tracer).trace
    assert found is not None
    assert (line(culprit(found)), len(tracer._writes) < 4096) == (marked(source, "culprit"), True)


# ---- what a repair needs to know besides


def test_every_statement_that_wrote_is_counted_harmful_or_not() -> None:
    found = trace(
        """
        import torch
        w = torch.ones(3, requires_grad=True)
        total = torch.zeros(3)
        for _ in range(4):
            total += 1  # harmless
        h = torch.sigmoid(w)
        h[0] *= 2  # culprit
        h.sum().backward()
        """
    )
    written = {(call.place.stack[0].line, call.place.operator): (call.count, call.versions) for call in found.written}
    assert written == {(6, "add_"): (4, 4), (8, "mul_"): (1, 1), (8, "__setitem__"): (1, 1)}


def test_other_places_that_saved_the_same_tensor_are_named() -> None:
    found = trace(
        """
        import torch
        w = torch.ones(3, requires_grad=True)
        b = torch.ones(3)
        c = torch.ones(3)
        first = w * b
        other = w * c
        second = w * b
        b += 1
        c += 1
        (first + second).sum().backward()
        """
    )
    saved = {line(found.saved), *(line(place) for place in found.also_saved)}
    assert saved == {6, 8}


def test_where_a_backward_pass_saved_the_tensor_again_the_forward_pass_is_named_too() -> None:
    found = trace(
        """
        import torch
        w = torch.arange(3.0, requires_grad=True)
        b = torch.ones(3, requires_grad=True)
        (g,) = torch.autograd.grad((w**3).sum(),
                                   w, create_graph=True)
        with torch.no_grad():
            w += 1
        g.sum().backward()
        """
    )
    assert line(found.saved) == 5
    assert [(line(place), place.operator) for place in found.also_saved] == [(5, "pow")]


def test_what_reads_a_graph_from_before_the_write_is_named() -> None:
    found = trace(
        """
        import torch
        w = torch.ones(3, requires_grad=True)
        state = torch.ones(3)
        for _ in range(3):
            state = (state * w).exp()  # carried
            new = state.sigmoid()
            new.sum().backward(retain_graph=True)
            with torch.no_grad():
                w += 1
        """
    )
    assert [line(place) for place in found.carried] == [6]


def test_a_graph_that_was_built_before_the_write_carries_nothing_over() -> None:
    assert trace(ACTIVATION).carried == ()


def test_the_graph_around_the_stale_node_goes_from_where_the_pass_begins_to_what_the_node_feeds() -> None:
    stale, *others = trace(ACTIVATION).graph
    add = next(node for node in others if node.name == "AddBackward0")
    start = next(node for node in others if node.start)
    assert (stale.name, line(stale.place)) == ("SigmoidBackward0", marked(ACTIVATION, "saved"))
    assert [others[position - 1].name for position in stale.feeds] == ["torch::autograd::AccumulateGrad"]
    assert (add.feeds, start.name) == ((0,), "SumBackward0")


def test_of_a_large_graph_only_the_piece_around_the_stale_node_is_told() -> None:
    far = trace(ACTIVATION.replace("h.sum()", f"(h{' * 2' * 20} + h{' * 3' * 20}).sum()")).graph
    assert far[0].name == "SigmoidBackward0"
    assert not any(node.start for node in far)
    assert len(far) <= 16
