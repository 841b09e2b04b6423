from __future__ import annotations

import textwrap
from types import ModuleType

import pytest
import torch
from passes.pass_testing import patches_of

from shrinkrepro.diagnosis import Diagnosis
from shrinkrepro.diagnosis import Statement as Described
from shrinkrepro.facts import Facts
from shrinkrepro.failure import VersionMismatch
from shrinkrepro.passes.inplace import (
    FLAGS,
    INPLACE_POSITION,
    NO_COUNTERPART,
    forms,
    out_of_place,
    out_of_place_elsewhere,
    twins,
)
from shrinkrepro.program.source import Program, count_writes
from shrinkrepro.program.tree import parse

IMPORTS = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"
MESSAGE = "one of the variables needed for gradient computation has been modified by an inplace operation"


def forms_of(statement: str, before: str = "", line: int | None = None) -> list[str]:
    """What `statement`, which stands behind `before`, becomes by each of the out-of-place forms of its last statement.

    `line` counts the lines of `statement` from 1 and names another than the last one.
    """
    head = IMPORTS + textwrap.dedent(before)
    program = Program.of(head + statement + "\n")
    tree = parse(program.entry)
    found = tree.statements[-1] if line is None else tree.statement_at(head.count("\n") + line)
    assert found is not None
    return [patch.apply(program).entry.text.removeprefix(head).strip("\n") for patch in out_of_place(tree, found)]


def diagnosed(program: Program, culprit: int, needed: int | None = None, built: int | None = None) -> Facts:
    """Facts of a program whose culprit and needing statement are on these lines."""

    def described(line: int | None) -> Described | None:
        if line is None:
            return None
        statement = parse(program.entry).statement_at(line)
        assert statement is not None
        column = statement.code.start - program.entry.offset_of(line)
        return Described(program.entry.path, line, line, column, column, "", "<module>", "")

    failure = VersionMismatch(MESSAGE, "torch.FloatTensor", (1,), None, None, 1, 0)
    diagnosis = Diagnosis(
        failure, None, None, None, described(culprit), described(needed), (), described(built), "stale", ()
    )
    return Facts(program, diagnosis, lambda: None)


@pytest.mark.parametrize(
    ("statement", "simplest"),
    [
        ("x += y", "x = x + y"),
        ("x *= a + b", "x = x * (a + b)"),
        ("x -= a * b", "x = x - a * b"),
        ("x -= a - b", "x = x - (a - b)"),
        ("x **= -1", "x = x ** -1"),
        ("x += a if b else c", "x = x + (a if b else c)"),
        ("self.total += loss", "self.total = self.total + loss"),
        ("x[x < 0] *= 2", "x = torch.where(x < 0, x * 2, x)"),
        ("x[x < 0] = 0.0", "x = x.masked_fill(x < 0, 0.0)"),
        ("x.add_(1)", "x = x.add(1)"),
        ("x.sub_(a).div_(b)", "x = x.sub(a).div(b)"),
        ("x = x.relu_()", "x = x.relu()"),
        ("x.zero_()", "x = torch.zeros_like(x)"),
        ("x.fill_(3)", "x = torch.full_like(x, 3)"),
        ("self.u.copy_(v)", "self.u = v.clone()"),
        ("self.u.copy_(a + b)", "self.u = (a + b).clone()"),
        ("x.normal_(0, 1)", "x = torch.empty_like(x).normal_(0, 1)"),
        ("w.detach().clamp_(0)", "w = w.detach().clamp(0)"),
        ("w.data.clamp_(0)", "w = w.data.clamp(0)"),
        ("x.t_()", "x = x.t()"),
        ("nn.init.zeros_(w)", "w = torch.zeros_like(w)"),
        ("nn.init.constant_(w, 0.5)", "w = torch.full_like(w, 0.5)"),
        ("nn.init.xavier_uniform_(w)", "w = nn.init.xavier_uniform_(w.clone())"),
        ("F.relu_(x)", "x = F.relu(x)"),
        ("F.relu(x, inplace=True)", "x = F.relu(x)"),
        ("F.relu(x, True)", "x = F.relu(x)"),
        ("x = F.dropout(x, 0.1, True, True)", "x = F.dropout(x, 0.1, True)"),
        ("act = nn.ReLU(True)", "act = nn.ReLU()"),
        ("act = nn.LeakyReLU(0.2, inplace=True)", "act = nn.LeakyReLU(0.2)"),
        ("torch.matmul(a, b, out=buf)", "buf = torch.matmul(a, b)"),
        ("torch._foreach_mul_(xs, 2)", "xs = torch._foreach_mul(xs, 2)"),
        ("loss = f(x.mul_(2))", "loss = f(x.mul(2))"),
        ("[p.add_(1) for p in ps]", "[p.add(1) for p in ps]"),
    ],
)
def test_the_simplest_form_is_the_one_a_person_would_write(statement: str, simplest: str) -> None:
    assert forms_of(statement)[0] == simplest


@pytest.mark.parametrize(
    ("statement", "form"),
    [
        ("x[i] = v", "x = x.clone()\nx[i] = v"),
        ("x[i] += v", "x = x.clone()\nx[i] += v"),
        ("xs[0][1] = v", "xs[0] = xs[0].clone()\nxs[0][1] = v"),
        ("a[0], b[1] = 1, 2", "a = a.clone()\nb = b.clone()\na[0], b[1] = 1, 2"),
        ("x[0].t().sigmoid_()", "x = x.clone()\nx[0].t().sigmoid_()"),
        ("self.pe[:, :2] = v", "self.pe = self.pe.clone()\nself.pe[:, :2] = v"),
        ("fast[k] -= g", "fast[k] = fast[k] - g"),
        ("y = x.relu_()", "y = x = x.relu()"),
        ("y = F.relu(x, inplace=True)", "y = x = F.relu(x)"),
        ("self.weight.div_(n)", "self.weight = torch.nn.Parameter(self.weight.div(n))"),
        ("self.weight -= g", "self.weight = torch.nn.Parameter(self.weight - g)"),
    ],
)
def test_among_the_forms_is_one_that_keeps_what_later_readers_see(statement: str, form: str) -> None:
    assert form in forms_of(statement)


def test_every_entry_of_a_container_can_stay_in_place_while_another_does_not() -> None:
    assert forms_of("net = nn.Sequential(nn.ReLU(True), nn.SiLU(inplace=True))") == [
        "net = nn.Sequential(nn.ReLU(), nn.SiLU())",
        "net = nn.Sequential(nn.ReLU(), nn.SiLU(inplace=True))",
        "net = nn.Sequential(nn.ReLU(True), nn.SiLU())",
    ]


def test_the_last_resort_is_to_delete_the_write() -> None:
    assert forms_of("x.add_(1)", "y = 1\n")[-1] == ""


def test_a_statement_that_binds_a_name_is_never_deleted() -> None:
    assert all(form.startswith(("y =", "x =")) for form in forms_of("y = x.relu_()"))


@pytest.mark.parametrize(
    "statement",
    [
        "x = x + 1",
        "x.add(1)",
        "p.requires_grad_(False)",
        "F.relu(x, inplace=False)",
        "log(out=stream)",
        "optimizer.step()",
        "import torch",
    ],
)
def test_what_does_not_write_in_place_has_no_form(statement: str) -> None:
    assert forms_of(statement) == []


def test_methods_of_the_program_itself_are_not_taken_for_tensor_methods() -> None:
    assert forms_of("self.update_(x)", "def update_(self, x): ...\n") == []


def test_a_function_that_writes_to_a_global_declares_it_before_assigning() -> None:
    before = "G = torch.ones(1)\n"
    assert forms_of("def f():\n    G.add_(1)", before)[0] == "def f():\n    global G\n    G = G.add(1)"


def test_a_closure_that_writes_to_a_name_around_it_declares_it_nonlocal() -> None:
    text = "def f():\n    x = 1\n    def g():\n        x.add_(1)"
    assert forms_of(text)[0] == "def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = x.add(1)"


def test_a_parameter_is_assigned_to_without_declaration() -> None:
    assert forms_of("def f(x):\n    x.add_(1)")[0] == "def f(x):\n    x = x.add(1)"


def test_under_no_grad_the_result_can_become_a_leaf_again() -> None:
    forms = forms_of("with torch.no_grad():\n    w -= g")
    assert "with torch.no_grad():\n    w = (w - g).requires_grad_()" in forms


FUNCTION = "def f(x):\n    y = x.relu_()\n    return {result}\n"


def test_a_name_that_is_read_no_more_is_not_bound_again() -> None:
    made = forms_of(FUNCTION.format(result="y"), line=2)
    assert made[0] == "def f(x):\n    y = x.relu()\n    return y"
    assert not any("y = x = " in form for form in made)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (FUNCTION.format(result="x + y"), 2),
        (FUNCTION.format(result="lambda: x"), 2),
        ("def f(x, n):\n    for i in range(n):\n        y = x.relu_()\n    return y\n", 3),
        ("x = f()\nfor i in range(n):\n    y = x.relu_()\n", 3),
        ("y = x.relu_()\n", 1),
    ],
    ids=["read behind", "read by a lambda", "read in the next round", "read by itself", "bound elsewhere"],
)
def test_a_name_that_may_be_read_again_is_bound_too(text: str, line: int) -> None:
    assert any("y = x = x.relu()" in form for form in forms_of(text, line=line))


@pytest.mark.parametrize(
    ("before", "statement", "exact"),
    [
        ("for p in net.parameters():\n", "    p.mul_(2)", False),
        ("for p in net.parameters():\n", "    p -= 2", False),
        ("def f(x):\n", "    x[0] = 1", False),
        ("def f():\n    a, b = pair\n", "    a *= 2", False),
        ("w = net.weight\n", "w.mul_(2)", False),
        ("def f():\n    y = g()\n", "    y.mul_(2)", True),
        ("x = f()\nfor i in range(3):\n", "    x.mul_(2)", True),
        ("for p in net.parameters():\n    for i in range(3):\n", "        p.mul_(2)", True),
        ("", "self.x.mul_(2)", True),
        ("", "x.mul_(2)", True),
    ],
)
def test_a_write_to_a_name_that_is_read_no_more_is_lost_when_another_tensor_gets_the_name(
    before: str, statement: str, exact: bool
) -> None:
    tree = parse(Program.of(before + statement + "\n").entry)
    assert any(form.exact for form in forms(tree, tree.statements[-1])) is exact


def test_a_statement_that_shares_its_line_keeps_its_neighbours() -> None:
    assert forms_of("a = 1; x[i] = v")[1] == "a = 1; x = x.clone(); x[i] = v"


def test_every_statement_but_the_culprit_is_written_out_of_place() -> None:
    program = Program.of("x += 1\ny += 1\nz.add_(1)\n")
    texts = [patch.apply(program).entry.text for patch in out_of_place_elsewhere(program, diagnosed(program, 2))]
    assert texts[:2] == ["x += 1\ny += 1\nz = z.add(1)\n", "x = x + 1\ny += 1\nz.add_(1)\n"]
    assert all("y += 1" in text for text in texts)


def test_the_constructor_of_the_module_that_wrote_stays_in_place_too() -> None:
    program = Program.of(IMPORTS + "act = nn.ReLU(inplace=True)\nact(x)\n")
    assert list(out_of_place_elsewhere(program, diagnosed(program, 5, built=4))) == []


def test_each_proposal_leaves_fewer_writes() -> None:
    before = IMPORTS + "x[i] = v\nx += 1\nx.normal_()\nx[0].sigmoid_()\ny = F.relu(x, inplace=True)\n"
    assert all(count_writes(after) < count_writes(before) for after in patches_of(out_of_place_elsewhere, before))


def runs(text: str) -> bool:
    """Whether a program runs to its end."""
    try:
        exec(compile(text, "program", "exec"), ModuleType("program").__dict__)
    except (AttributeError, NameError, RuntimeError, TypeError):
        return False
    return True


LINEAR = "import torch\nm = torch.nn.Linear(1, 1)\n"
STEP = LINEAR + "o = torch.optim.SGD(m.parameters(), lr=1)\ny = m(m(torch.ones(1, 1)))\n"
LEAF = "import torch\nx = torch.ones(2, requires_grad=True) * 1\ny = x.sigmoid()\n"


@pytest.mark.parametrize(
    ("text", "culprit"),
    [
        (LEAF + "y += 1\ny.sum().backward()\n", 4),
        (LEAF + "y[0] = 1\ny.sum().backward()\n", 4),
        (LEAF + "y[0] *= 2\ny.sum().backward()\n", 4),
        (LEAF + "y[:1].mul_(2)\ny.sum().backward()\n", 4),
        (LEAF + "y.copy_(x)\ny.sum().backward()\n", 4),
        (LEAF + "y.zero_()\ny.sum().backward()\n", 4),
        (LEAF + "y.normal_()\ny.sum().backward()\n", 4),
        (LEAF + "torch.nn.functional.dropout(y, inplace=True)\ny.sum().backward()\n", 4),
        (LEAF + "z = y.relu_()\nz.sum().backward()\n", 4),
        (LEAF + "ys = {'a': y}\nys['a'] += 1\ny.sum().backward()\n", 5),
        (LEAF + "f = lambda t: t.add_(1)\nf(y)\ny.sum().backward()\n", 5),
        (LEAF + "def f():\n    y.mul_(2)\nf()\ny.sum().backward()\n", 5),
        (
            LINEAR + "y = m(m(torch.ones(1, 1)))\nwith torch.no_grad():\n    m.weight.div_(2)\ny.backward()\n",
            5,
        ),
        (
            LINEAR + "b = torch.ones(1, 1)\ny = m(b)\ntorch.matmul(b, b.clone(), out=b)\ny.backward()\n",
            5,
        ),
        (
            STEP + "y.backward(retain_graph=True)\no.step()\ny.backward()\n",
            6,
        ),
    ],
)
def test_a_failing_program_has_a_twin_that_runs(text: str, culprit: int) -> None:
    program = Program.of(text)
    needed = text.count("\n")
    assert not runs(text)
    assert any(runs(patch.apply(program).entry.text) for patch in twins(program, diagnosed(program, culprit, needed)))


def test_the_best_twin_only_changes_the_culprit() -> None:
    program = Program.of("x += 1\ny = x\nx += 1\n")
    assert twins(program, diagnosed(program, 3))[0].apply(program).entry.text == "x += 1\ny = x\nx = x + 1\n"


def test_a_call_that_hides_its_write_is_given_a_copy() -> None:
    program = Program.of("y = self.op(x)\nlog(y)\n")
    assert (
        twins(program, diagnosed(program, 1))[0].apply(program).entry.text == "x = x.clone()\ny = self.op(x)\nlog(y)\n"
    )


def test_an_optimizer_steps_behind_the_backward_that_needs_its_parameters() -> None:
    program = Program.of("for _ in data:\n    opt.step()\n    if a:\n        loss.backward()\n    log()\n")
    texts = [patch.apply(program).entry.text for patch in twins(program, diagnosed(program, 2, 4))]
    assert texts == [
        "for _ in data:\n    if a:\n        loss.backward()\n    opt.step()\n    log()\n",
        "for _ in data:\n    if a:\n        loss.backward()\n    log()\n",
    ]


def test_the_constructor_of_the_module_that_wrote_is_where_the_twin_differs() -> None:
    program = Program.of(IMPORTS + "act = nn.ReLU(inplace=True)\nact(x)\n")
    best = twins(program, diagnosed(program, 5, built=4))[0]
    assert best.apply(program).entry.text == IMPORTS + "act = nn.ReLU()\nact(x)\n"


def test_without_a_culprit_there_is_no_twin() -> None:
    program = Program.of("x += 1\n")
    assert twins(program, Facts(program, None, lambda: None)) == []


def test_every_in_place_method_of_tensors_has_a_counterpart_or_is_known_to_have_none() -> None:
    in_place = [name for name in dir(torch.Tensor) if name.endswith("_") and not name.endswith("__") and name[0] != "_"]
    assert [n for n in in_place if not hasattr(torch.Tensor, n[:-1]) and n not in NO_COUNTERPART | FLAGS] == []


@pytest.mark.parametrize("name", INPLACE_POSITION)
def test_inplace_stands_where_pytorch_has_it(name: str) -> None:
    owner = torch.nn if name[0].isupper() else torch.nn.functional
    function = getattr(owner, name)
    code = (function.__init__ if isinstance(function, type) else function).__code__
    parameters = [p for p in code.co_varnames[: code.co_argcount] if p != "self"]
    assert parameters.index("inplace") == INPLACE_POSITION[name]
