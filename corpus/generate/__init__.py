"""Generated PyTorch programs that die of "modified by an inplace operation", each with the line that is to blame.

>>> from corpus.generate import program, programs
>>> made = program(seed=1, index=7)      # always the same one
>>> made.files["train.py"], made.truth.culprit.line, made.truth.saved.line
>>> @given(programs(moves=30))           # a Hypothesis strategy; `faults=0` for programs that run to their end
... def test_my_debugger(made): ...

A program is written line by line and every line is run at once (`author`), so what each line saved and spoiled is known
without watching a single call (`world`); then stretches of it become functions, modules, closures and blocks (`dress`),
and the whole is run once, plainly, to see that it fails as it should (`programs`). `smallest` writes the smallest
program with the same pair of operators. Only `checks` (what shrinkrepro must get right) and `shared` know shrinkrepro.
"""

from corpus.generate.programs import outcome, program, programs
from corpus.generate.truth import Generated, Made, Place, Truth

__all__ = ["Generated", "Made", "Place", "Truth", "outcome", "program", "programs"]
