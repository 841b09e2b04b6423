from __future__ import annotations

from passes.pass_testing import observed, patches_of

from shrinkrepro.passes.values import expression_to_tensor, expression_to_value


def test_a_stand_in_with_an_operator_is_put_in_parentheses_before_a_dot() -> None:
    before = "import torch\nw = torch.rand(2, requires_grad=True)\ny = torch.stack([w.exp(), w.exp(), w]).sum()\n"
    assert "y = (torch.ones(3, 2, requires_grad=True) * 1).sum()" in "".join(
        patches_of(expression_to_tensor, before, observed)
    )


def test_numbers_and_names_that_are_as_short_as_their_value_stay() -> None:
    assert patches_of(expression_to_value, "n = 3\nm = n\n", observed) == []
