"""Each family of repairs: the source before, where the tensor was saved, changed and needed, and what it may become."""

from __future__ import annotations

import textwrap
from itertools import chain

import pytest

from shrinkrepro.diagnosis import diagnose
from shrinkrepro.facts import Facts
from shrinkrepro.program.edit import Patch
from shrinkrepro.program.source import Program
from shrinkrepro.program.tree import parse
from shrinkrepro.repair import Kind, Repair, rebased, repairs, rewrites
from shrinkrepro.runtime.messages import Frame, Mutation, Observation, Place, Seen, TensorValue, Trace, Value

MESSAGE = (
    "one of the variables needed for gradient computation has been modified by an inplace operation: "
    "[torch.FloatTensor [1]], which is output 0 of ExpBackward0, is at version 1; expected version 0 instead."
)


def frame(program: Program, fragment: str, function: str = "<module>") -> Frame:
    """The frame that runs the expression `fragment`."""
    text = program.entry.text
    start = text.index(fragment)
    line = program.entry.line_at(start)
    column = start - program.entry.offset_of(line)
    return Frame(program.entry.path, line, function, line, column, column + len(fragment))


def place(program: Program, *fragments: str, operator: str = "") -> Place:
    """Where something happened: the innermost fragment first; every frame but the last is that of a function `f`."""
    names = [*["f"] * (len(fragments) - 1), "<module>"]
    return Place(operator, tuple(frame(program, *pair) for pair in zip(fragments, names, strict=True)))


def found(
    source: str,
    saved: tuple[str, ...],
    changed: tuple[str, ...],
    needed: tuple[str, ...],
    *,
    kind: Kind,
    attribute: str = "_saved_self",
    carried: tuple[str, ...] = (),
    values: dict[str, Value] | None = None,
) -> list[str]:
    """What the repairs of one kind make of the source."""
    program = Program.of(textwrap.dedent(source), "train.py")
    trace = Trace(
        MESSAGE,
        "ExpBackward0",
        attribute,
        place(program, *saved),
        (Mutation(place(program, *changed, operator="add_"), 0, 1),),
        place(program, *needed),
        carried=(place(program, *carried),) if carried else (),
    )

    def seen(fragment: str, value: Value) -> Seen:
        at = frame(program, fragment)
        return Seen("train.py", at.line, at.column or 0, at.line, at.end_column or 0, value)

    observation = Observation({}, {}, tuple(seen(fragment, value) for fragment, value in (values or {}).items()))
    facts = Facts(program, diagnose(trace, dict(program.texts)), lambda: observation)
    return [
        changed_lines(program, repair) for repair in chain.from_iterable(repairs(facts, trace)) if repair.kind == kind
    ]


def changed_lines(program: Program, repair: Repair) -> str:
    """The lines that a repair brings in, without their indentation."""
    before = program.entry.text.splitlines()
    after = repair.patch.apply(program).entry.text.splitlines()
    return "\n".join(line.strip() for line in after if line not in before)


STRAIGHT = """
    import torch
    x = torch.ones(1, requires_grad=True)
    w = x + 1
    y = w.exp() * w
    w += 1
    y.sum().backward()
"""
TENSOR = Value("tensor", tensor=TensorValue((1,), "torch.float32", True, False, 1, 0, (1,)))
TENSORS = (TENSOR, TENSOR)


def test_the_write_is_made_out_of_place() -> None:
    assert found(STRAIGHT, ("w.exp() * w",), ("w += 1",), ("y.sum().backward()",), kind="out-of-place") == ["w = w + 1"]


def test_the_write_is_made_into_a_copy() -> None:
    assert found(STRAIGHT, ("w.exp() * w",), ("w += 1",), ("y.sum().backward()",), kind="copy") == ["w = w.clone()"]


def test_what_is_saved_is_copied_operand_by_operand_and_then_the_result() -> None:
    made = found(STRAIGHT, ("w.exp() * w",), ("w += 1",), ("y.sum().backward()",), kind="copy saved")
    assert made == ["y = w.exp().clone() * w", "y = w.exp() * w.clone()", "y = (w.exp() * w).clone()"]


def test_a_saved_result_is_copied_before_the_operands_are() -> None:
    made = found(
        STRAIGHT,
        ("w.exp()",),
        ("w += 1",),
        ("y.sum().backward()",),
        kind="copy saved",
        attribute="_saved_result",
    )
    assert made == ["y = w.exp().clone() * w", "y = w.clone().exp() * w"]


@pytest.mark.parametrize(
    ("value", "copied"),
    [
        (TENSOR, ["z = torch.stack(parts.clone())"]),
        (Value("list", items=TENSORS), ["z = torch.stack([value.clone() for value in parts])"]),
        (Value("tuple", items=TENSORS), ["z = torch.stack(tuple(value.clone() for value in parts))"]),
        (
            Value("dict", items=TENSORS),
            ["z = torch.stack({key: value.clone() for key, value in parts.items()})"],
        ),
        (
            Value("literal", "None"),
            [
                "z = torch.stack(None if parts is None else parts.clone())",
                "z = torch.stack(None if parts is None else tuple(value.clone() for value in parts))",
            ],
        ),
        (Value("literal", "3"), []),
    ],
    ids=["tensor", "list", "tuple", "dict", "nothing at first", "number"],
)
def test_a_copy_has_the_form_that_the_value_needs(value: Value, copied: list[str]) -> None:
    source = "import torch\nz = torch.stack(parts)\nparts[0] += 1\nz.sum().backward()\n"
    made = found(
        source,
        ("torch.stack(parts)",),
        ("parts[0] += 1",),
        ("z.sum().backward()",),
        kind="copy saved",
        values={"parts": value, "torch.stack(parts)": Value("opaque")},
    )
    assert made == copied


STEPS = """
    import torch
    def f(optimizer):
        optimizer.step()
    a = net(x)
    b = other(a)
    f(opt)
    opt.zero_grad()
    b.sum().backward()
    print("done")
"""


def of_steps(program: Program, kind: Kind) -> Repair:
    """The one repair of a kind of a version of STEPS."""
    trace = Trace(
        MESSAGE,
        None,
        None,
        place(program, "net(x)"),
        (Mutation(place(program, "optimizer.step()", "f(opt)"), 0, 1),),
        place(program, "b.sum().backward()"),
    )
    facts = Facts(program, diagnose(trace, dict(program.texts)), lambda: None)
    (only,) = (repair for repair in chain.from_iterable(repairs(facts, trace)) if repair.kind == kind)
    return only


def test_the_write_is_moved_behind_the_backward_that_needs_the_tensor_where_their_stacks_part() -> None:
    program = Program.of(textwrap.dedent(STEPS), "train.py")
    lines = of_steps(program, "move").patch.apply(program).entry.text.splitlines()
    assert lines[-4:] == ["opt.zero_grad()", "b.sum().backward()", "f(opt)", 'print("done")']


TWO_STEPS = """
    import torch
    opt_a = torch.optim.SGD(a.parameters(), lr=0.1)
    {built}
    loss_a.backward(retain_graph=True)
    opt_a.step()
    {needed}
    opt_b.step()
"""


@pytest.mark.parametrize(
    ("built", "needed", "limited"),
    [
        ("opt_b = SGD(b.parameters())", "loss_b.backward()", "loss_b.backward(inputs=list(b.parameters()))"),
        (
            "opt_b = SGD(b)",
            "l.backward()",
            'l.backward(inputs=[p for group in opt_b.param_groups for p in group["params"]])',
        ),
        (
            "opt_b = f()",
            "l.backward(g,)",
            'l.backward(g, inputs=[p for group in opt_b.param_groups for p in group["params"]],)',
        ),
    ],
)
def test_a_step_that_waits_keeps_the_backward_before_it_out_of_its_gradients(
    built: str, needed: str, limited: str
) -> None:
    source = TWO_STEPS.format(built=built, needed=needed)
    _, made = found(source, ("a.parameters()",), ("opt_a.step()",), (needed,), kind="move")
    assert made.splitlines()[0] == limited


def test_a_backward_that_is_limited_already_stays_as_it_is() -> None:
    source = TWO_STEPS.format(built="opt_b = f()", needed="loss_b.backward(inputs=[w])")
    made = found(source, ("a.parameters()",), ("opt_a.step()",), ("loss_b.backward(inputs=[w])",), kind="move")
    assert len(made) == 1


def test_a_module_that_writes_because_it_was_built_so_is_built_otherwise() -> None:
    program = Program.of(
        "from torch import nn\nact = nn.ReLU(inplace=True)\ny = act(x)\ny.sum().backward()\n", "train.py"
    )
    write = Mutation(place(program, "act(x)", operator="relu_"), 0, 1)
    trace = Trace(
        MESSAGE,
        None,
        None,
        place(program, "act(x)"),
        (write,),
        place(program, "y.sum().backward()"),
        place(program, "nn.ReLU(inplace=True)"),
    )
    facts = Facts(program, diagnose(trace, dict(program.texts)), lambda: None)
    first = next(chain.from_iterable(repairs(facts, trace)))
    assert (first.kind, first.patch.label) == ("constructor", "build ReLU without `inplace=True`")
    assert changed_lines(program, first) == "act = nn.ReLU()"


HOOK = """
    import torch
    def hook(module, inputs, output):
        seen.append(output)
        if gain != 1:
            {write}
    {use}
    y.sum().backward()
"""
HANDLE = "net.register_forward_hook(hook)"


@pytest.mark.parametrize(
    ("write", "made"),
    [
        ("output *= gain", "output = output * gain\nreturn output"),
        ("output.mul_(gain)", "output = output.mul(gain)\nreturn output"),
        ("seen[-1] *= gain", "seen[-1] = seen[-1] * gain\nreturn seen[-1]"),
    ],
)
def test_a_hook_returns_what_it_wrote(write: str, made: str) -> None:
    source = HOOK.format(write=write, use=HANDLE)
    assert made in found(source, (HANDLE,), (write,), ("y.sum().backward()",), kind="out-of-place")


@pytest.mark.parametrize("use", ["hook(net, (x,), y)", "self.hook(net, (x,), y)"])
def test_a_function_that_is_only_called_does_not_return_what_it_wrote(use: str) -> None:
    source = HOOK.format(write="output *= gain", use=use)
    made = found(source, (use,), ("output *= gain",), ("y.sum().backward()",), kind="out-of-place")
    assert not any("return" in lines for lines in made)


@pytest.mark.parametrize(
    "hook",
    ["lambda module, inputs, output: output.add_(1)", "lambda module, inputs, output: print(output.add_(1))"],
)
def test_a_lambda_hands_on_what_it_writes_out_of_place(hook: str) -> None:
    use = f"net.register_forward_hook({hook})"
    source = f"import torch\n{use}\ny = net(x)\ny.sum().backward()\n"
    write = hook.partition(": ")[2]
    lines = found(source, ("net(x)",), (write,), ("y.sum().backward()",), kind="out-of-place")
    assert lines == [use.replace("add_", "add")]


@pytest.mark.parametrize(
    ("registered", "function"),
    [
        ("net.register_forward_hook(lambda module, inputs, output: print(output.add_(1)))", "<lambda>"),
        ("handle = net.register_forward_hook(hook)", "hook"),
        ("handle = net.register_forward_hook(self.hook)", "hook"),
    ],
)
def test_a_hook_before_the_one_that_writes_hands_on_a_copy(registered: str, function: str) -> None:
    source = f"import torch\ndef hook(module, inputs, output):\n    output.add_(1)\n{registered}\ny = net(x)\n"
    write = "output.add_(1)" if function == "hook" else "print(output.add_(1))"
    lines = copied_at_save(source, "net(x)", write, function)
    assert "net.register_forward_hook(lambda module, inputs, output: output.clone())" in lines


def test_a_function_that_is_no_hook_has_none_before_it() -> None:
    source = (
        "import torch\ndef hook(output):\n    output.add_(1)\nnet.register_forward_hook(other)\ny = net(x)\nhook(y)\n"
    )
    assert not any(
        "clone()" in line and "lambda" in line for line in copied_at_save(source, "net(x)", "output.add_(1)", "hook")
    )


def copied_at_save(source: str, saved: str, write: str, function: str) -> list[str]:
    """What copying what is saved makes of a source where `function` writes."""
    program = Program.of(source, "train.py")
    changed = Place("add_", (frame(program, write, function), frame(program, "y = net(x)")))
    trace = Trace(MESSAGE, None, None, place(program, saved), (Mutation(changed, 0, 1),), None)
    facts = Facts(program, diagnose(trace, dict(program.texts)), lambda: None)
    everything = chain.from_iterable(repairs(facts, trace))
    return [changed_lines(program, repair) for repair in everything if repair.kind == "copy saved"]


def test_what_a_call_is_given_is_copied_at_once_where_it_saves_several() -> None:
    source = "import torch\nx.view(-1).addcmul_(x.view(-1), y, value=2)\nx.sum().backward()\n"
    call = "x.view(-1).addcmul_(x.view(-1), y, value=2)"
    made = found(source, (call,), (call,), ("x.sum().backward()",), kind="copy saved")
    assert "x.view(-1).addcmul_(x.view(-1).clone(), y.clone(), value=2)" in made


def test_what_a_call_around_passes_on_is_copied_for_all_that_is_saved_of_it() -> None:
    source = """
        import torch
        def f(x):
            y = x * x
            return y * x
        y = f(w)
        w += 1
        y.sum().backward()
    """
    made = found(source, ("x * x", "f(w)"), ("w += 1",), ("y.sum().backward()",), kind="copy saved")
    assert made[-1] == "y = f(w.clone())"


def test_a_write_whose_result_is_used_before_the_backward_stays_where_it_is() -> None:
    source = """
        y = w.exp()
        z = w.add_(1)
        (y + z).sum().backward()
    """
    assert found(source, ("w.exp()",), ("w.add_(1)",), ("(y + z).sum().backward()",), kind="move") == []


def test_what_saved_the_tensor_is_computed_again_after_the_write() -> None:
    program = Program.of(textwrap.dedent(STEPS).replace("b = other(a)\n", ""), "train.py")
    again = of_steps(program, "recompute")
    assert again.patch.apply(program).entry.text.splitlines()[-5:-3] == ["f(opt)", "a = net(x)"]


@pytest.mark.parametrize(
    ("call", "run"),
    [
        ("net(x)", "torch.func.functional_call(net, copies, (x,))"),
        ("net(x, y)", "torch.func.functional_call(net, copies, (x, y))"),
        ("net(*xs)", "torch.func.functional_call(net, copies, (*xs,))"),
        ("net(x, mask=m, **more)", 'torch.func.functional_call(net, copies, (x,), {"mask": m, **more})'),
        ("net(mask=m)", 'torch.func.functional_call(net, copies, (), {"mask": m})'),
    ],
)
def test_a_module_is_run_on_copies_of_its_parameters(call: str, run: str) -> None:
    source = f"import torch\nz = {call}\nopt.step()\nz.sum().backward()\n"
    made = found(source, (call,), ("opt.step()",), ("z.sum().backward()",), kind="copy parameters")
    copied = "copies = {name: p.clone() for name, p in net.named_parameters()}"
    assert made == [f"{copied}\nz = {run}"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("z = [net(x) for x in xs]", "z = [torch.func.functional_call(net, {copies}, (x,)) for x in xs]"),
        ("y = 2; z = net(x)", "y = 2; z = torch.func.functional_call(net, {copies}, (x,))"),
        (
            "copies = 2\nz = net(x)",
            "copies_2 = {copies}\nz = torch.func.functional_call(net, copies_2, (x,))",
        ),
    ],
    ids=["in a comprehension", "behind a semicolon", "a name that is taken"],
)
def test_copies_of_parameters_have_a_line_and_a_name_where_that_is_possible(before: str, after: str) -> None:
    source = f"import torch\n{before}\nopt.step()\nz.sum().backward()\n"
    made = found(source, ("net(x)",), ("opt.step()",), ("z.sum().backward()",), kind="copy parameters")
    assert made == [after.replace("{copies}", "{name: p.clone() for name, p in net.named_parameters()}")]


def test_a_function_of_torch_has_no_parameters_to_copy() -> None:
    source = "import torch\nz = torch.exp(x)\nx.add_(1)\nz.sum().backward()\n"
    assert found(source, ("torch.exp(x)",), ("x.add_(1)",), ("z.sum().backward()",), kind="copy parameters") == []


def test_what_is_carried_over_is_cut_off_from_its_graph() -> None:
    source = """
        import torch
        for x in data:
            state = cell(x, state)
            state.sum().backward(retain_graph=True)
            opt.step()
    """
    made = found(
        source,
        ("cell(x, state)",),
        ("opt.step()",),
        ("state.sum().backward(retain_graph=True)",),
        kind="detach",
        carried=("cell(x, state)",),
    )
    assert made == ["state = cell(x.detach(), state)", "state = cell(x, state.detach())"]


def test_what_a_call_returns_is_cut_off_where_its_graph_is_carried_over() -> None:
    source = """
        import torch
        def f(x):
            return net(x)
        value = f(data)
        for target in targets:
            loss = value - target
            loss.backward(retain_graph=True)
            opt.step()
    """
    made = found(
        source,
        ("net(x)", "f(data)"),
        ("opt.step()",),
        ("loss.backward(retain_graph=True)",),
        kind="detach",
        carried=("value - target",),
        values={"f(data)": TENSOR},
    )
    assert "value = f(data).detach()" in made


def test_each_rewrite_is_proposed_once() -> None:
    program = Program.of(textwrap.dedent(STRAIGHT), "train.py")
    saved = place(program, "w.exp() * w")
    write = Mutation(place(program, "w += 1", operator="add_"), 0, 1)
    trace = Trace(MESSAGE, None, None, saved, (write,), place(program, "y.sum().backward()"), also_saved=(saved, saved))
    facts = Facts(program, diagnose(trace, dict(program.texts)), lambda: None)
    texts = [repair.patch.apply(program).entry.text for repair in chain.from_iterable(repairs(facts, trace))]
    assert len(texts) == len(set(texts))


def test_a_statement_that_writes_nothing_has_no_rewrites() -> None:
    tree = parse(Program.of("x = y + 1\n").entry)
    assert rewrites(tree, tree.statements[0]) == []


# ---- patches of a changed program as patches of the original


def patch_of(program: Program, line: int) -> Patch:
    tree = parse(program.entry)
    statement = tree.statement_at(line)
    assert statement is not None
    return rewrites(tree, statement)[0].patch


def test_a_later_patch_can_be_made_alone() -> None:
    original = Program.of("x += 1\ny += 2\n")
    changed = patch_of(original, 1).apply(original)
    later = rebased(patch_of(changed, 2), changed)
    assert later is not None
    assert later.apply(original).entry.text == "x += 1\ny = y + 2\n"


def test_a_patch_of_what_was_written_in_cannot_be_made_alone() -> None:
    original = Program.of("x += 1\n")
    tree = parse(original.entry)
    changed = rewrites(tree, tree.statements[0])[-1].patch.apply(original)
    assert changed.entry.text == "x = x.clone()\nx += 1\n"
    whole = parse(changed.entry).statements[0]
    assert rebased(Patch((whole.delete(),)), changed) is None
