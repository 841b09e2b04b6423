from __future__ import annotations

import textwrap
from contextlib import suppress
from typing import Any

import pytest
import torch

from shrinkrepro.proof import compare
from shrinkrepro.runtime.messages import Pass
from shrinkrepro.runtime.prove import Prover, numbers

SAVED_THEN_WRITTEN = """
    import torch
    w = torch.ones(3, requires_grad=True)
    buffer = torch.arange(6.0)
    y = w * {saved}
    buffer[{written}] = 7.0
    y.sum().backward()
"""


def never() -> None:
    raise AssertionError("stopped")


def run(
    source: str, *, reference: bool = False, first: int = 1, last: int = 9, seconds: float = 60
) -> tuple[Pass, ...]:
    """The passes that a run of the source writes down; an error that it dies of is left out."""
    hint: dict[str, Any] = {"first": first, "last": last, "reference": reference, "seconds": seconds}
    prover = Prover(hint, never)
    with prover:
        with suppress(RuntimeError):
            exec(compile(textwrap.dedent(source), "program.py", "exec"), {})
        return prover.passes()


def elements(values: torch.Tensor) -> str:
    return numbers(values).sample


def gradients(passes: tuple[Pass, ...]) -> list[list[str]]:
    return [[gradient.sample for gradient in one.gradients] for one in passes]


def test_a_pass_has_its_loss_and_the_gradient_of_each_leaf() -> None:
    (only,) = run("import torch\nx = torch.ones(2, requires_grad=True)\n(x * 3).sum().backward()\n")
    assert [loss.sample for loss in only.losses] == [elements(torch.tensor(6.0))]
    assert [gradient.sample for gradient in only.gradients] == [elements(torch.full((2,), 3.0))]


def test_gradients_are_what_the_pass_adds_and_not_what_has_piled_up() -> None:
    passes = run(
        """
        import torch
        x = torch.ones(2, requires_grad=True)
        for factor in (3, 5):
            (x * factor).sum().backward()
        """
    )
    assert gradients(passes) == [[elements(torch.full((2,), 3.0))], [elements(torch.full((2,), 5.0))]]


def test_gradients_that_are_returned_count_as_well() -> None:
    passes = run("import torch\nx = torch.ones(2, requires_grad=True)\ntorch.autograd.grad((x * 3).sum(), x)\n")
    assert gradients(passes) == [[elements(torch.full((2,), 3.0))]]


def test_a_pass_that_fails_has_a_loss_and_is_not_finished() -> None:
    passes = run(SAVED_THEN_WRITTEN.format(saved="buffer[:3]", written=0))
    assert [(one.number, one.finished, len(one.losses), one.gradients) for one in passes] == [(1, False, 1, ())]


@pytest.mark.parametrize(("first", "last", "numbered"), [(1, 2, [1, 2]), (2, 9, [2, 3]), (3, 3, [3])])
def test_only_the_passes_asked_for_are_written_down(first: int, last: int, numbered: list[int]) -> None:
    source = "import torch\nx = torch.ones(1, requires_grad=True)\nfor _ in range(3):\n    x.exp().backward()\n"
    assert [one.number for one in run(source, first=first, last=last)] == numbered


@pytest.mark.parametrize(("saved", "written"), [("buffer[:3]", 0), ("buffer[2:5]", 3), ("buffer[3:]", "::2")])
def test_the_reference_has_the_gradients_of_before_the_write(saved: str, written: str | int) -> None:
    passes = run(SAVED_THEN_WRITTEN.format(saved=saved, written=written), reference=True)
    wanted = eval(saved, {"buffer": torch.arange(6.0)})
    assert gradients(passes) == [[elements(wanted)]]


def test_the_reference_computes_checkpointed_segments_from_what_they_were_given() -> None:
    source = """
        import torch
        from torch.utils.checkpoint import checkpoint
        w = torch.full((2,), 3.0, requires_grad=True)
        x = torch.ones(2)
        y = checkpoint(lambda x: w * x, x, use_reentrant=False)
        x.fill_(9.0)
        y.sum().backward()
    """
    assert gradients(run(source, reference=True)) == [[elements(torch.ones(2))]]


def test_the_reference_keeps_graphs_for_second_derivatives() -> None:
    source = """
        import torch
        x = torch.full((1,), 2.0, requires_grad=True)
        (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        g.sum().backward()
    """
    assert gradients(run(source, reference=True))[1] == [elements(torch.full((1,), 12.0))]


@pytest.mark.parametrize("silent", ["x.data.mul_(2)", "x.detach().numpy()[...] *= 2", "x.data = x.data * 2"])
def test_the_reference_reads_what_was_written_past_the_version_counter_as_the_program_does(silent: str) -> None:
    source = f"""
        import torch
        x = torch.ones(2, requires_grad=True)
        y = x * x
        {silent}
        y.sum().backward()
    """
    plain, reference = run(source), run(source, reference=True)
    assert gradients(reference) == gradients(plain) == [[elements(torch.full((2,), 4.0))]]


TRANSFORMED = """
    import torch
    x = torch.full((2,), 3.0, requires_grad=True)
    y = x * 2
    def f(t):
        return (t**3).sum()
    {use}
    {write}
    g.sum().backward()
"""


@pytest.mark.parametrize(
    "use",
    [
        "g = torch.func.grad(f)(y)",
        "g = torch.func.jacrev(f)(y)",
        "g = torch.vmap(torch.func.grad(f))(y[None])",
        "g = torch.func.hessian(f)(y)",
    ],
)
def test_the_reference_runs_the_transforms_of_torch_func(use: str) -> None:
    source = TRANSFORMED.format(use=use, write="pass")
    assert gradients(run(source, reference=True))[-1] == gradients(run(source))[-1]


def test_the_reference_guards_what_the_outer_graph_saves_inside_a_transform() -> None:
    meant = gradients(run(TRANSFORMED.format(use="g = torch.func.grad(f)(y)", write="pass")))[-1]
    source = TRANSFORMED.format(use="g = torch.func.grad(f)(y)", write="y.mul_(2)")
    assert [one.finished for one in run(source)] == [True, False]
    assert gradients(run(source, reference=True))[-1] == meant


def test_the_reference_does_not_pretend_to_know_what_is_written_inside_a_transform() -> None:
    source = """
        import torch
        def f(t):
            y = t.exp()
            y.mul_(2)
            return y.sum()
        torch.func.grad(f)(torch.ones(2))
    """
    assert [one.finished for one in run(source, reference=True)] == [False]


CHECKPOINTED = """
    import torch
    from torch.utils.checkpoint import checkpoint
    torch.manual_seed(0)
    net = torch.nn.Linear(2, 2)
    x = torch.ones(1, 2, requires_grad=True)
    for _ in range(2):
        h = checkpoint(net, x * 2, use_reentrant=True)
        (h + net(x)).pow(2).sum().backward()
"""


@pytest.mark.parametrize("reference", [False, True])
def test_the_pass_that_a_checkpoint_runs_is_part_of_the_pass_around_it(reference: bool) -> None:
    passes = run(CHECKPOINTED, reference=reference)
    plain = run(CHECKPOINTED.replace("checkpoint(net, x * 2, use_reentrant=True)", "net(x * 2)"))
    assert [one.number for one in passes] == [1, 2]
    for ours, theirs in zip(passes, plain, strict=True):
        assert compare(ours.losses, theirs.losses).same
        assert compare(ours.gradients, theirs.gradients).same


def test_nothing_stays_behind() -> None:
    engine = torch.autograd.Variable._execution_engine
    checkpoint = torch.utils.checkpoint.checkpoint
    refusing = torch.autograd.graph.disable_saved_tensors_hooks
    run("import torch\n", reference=True)
    assert torch.autograd.graph.disable_saved_tensors_hooks is refusing
    assert torch.autograd.Variable._execution_engine is engine
    assert torch.utils.checkpoint.checkpoint is checkpoint


def test_a_run_that_takes_too_long_is_stopped() -> None:
    stopped: list[bool] = []

    def stop() -> None:
        stopped.append(True)
        raise RuntimeError

    with Prover({"first": 1, "last": 1, "reference": False, "seconds": 0.05}, stop), pytest.raises(RuntimeError):
        exec("while True: pass")
    assert stopped == [True]


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6.0).view(2, 3).t(),
        torch.arange(4, dtype=torch.bfloat16),
        torch.tensor([1 + 2j, 3j]).conj(),
        torch.eye(3).to_sparse(),
        torch.ones(1).expand(5),
        torch.zeros(0),
        torch.tensor(3.0),
    ],
    ids=["transposed", "bfloat16", "complex", "sparse", "expanded", "empty", "scalar"],
)
def test_numbers_of_equal_tensors_are_equal(tensor: torch.Tensor) -> None:
    assert numbers(tensor) == numbers(tensor.clone())


def test_a_difference_between_thinned_out_elements_shows() -> None:
    ours, theirs = torch.zeros(1000), torch.zeros(1000)
    theirs[333] = 0.25
    assert compare([numbers(ours, most=10)], [numbers(theirs, most=10)]).difference == 0.25
