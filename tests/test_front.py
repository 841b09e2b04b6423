"""Whatever the file holds, the command ends soon, with a documented status and one sentence, and never by an exception.

`pytest tests/test_front.py --hypothesis-profile fuzz` draws 2,000 files instead of 100.
"""

from __future__ import annotations

import io
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from isolation.fakes import FakeBackend

from shrinkrepro.cli import main
from shrinkrepro.errors import Exit
from shrinkrepro.isolation import zygote
from shrinkrepro.runtime.messages import Report

CORPUS = Path(__file__).resolve().parent.parent / "corpus"
SCRIPTS = [path.read_bytes() for path in sorted(CORPUS.glob("00*/*.py"))]
NOTEBOOKS = [path.read_bytes() for path in sorted(CORPUS.glob("*/*.ipynb"))]
# What a file that cannot be run, or runs to its end without the error, may end in.
ENDS = {Exit.TOO_LARGE, Exit.SYNTAX, Exit.EMPTY, Exit.ENCODING, Exit.NOT_REPRODUCED}
SECONDS = 10.0


class FakeZygote(FakeBackend):
    """Every program runs to its end."""

    def __init__(self, **_: object) -> None:
        super().__init__(lambda job: Report("finished", guard="landlock 7"))

    def __enter__(self) -> FakeZygote:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@pytest.fixture(scope="module", autouse=True)
def nothing_runs() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zygote, "Zygote", FakeZygote)
        yield


def ended(content: bytes, suffix: str) -> tuple[int, str, float]:
    """The exit status of explaining a file with that content, what it says on standard error, and the seconds."""
    said, started = io.StringIO(), time.monotonic()
    with tempfile.TemporaryDirectory() as folder, redirect_stderr(said), redirect_stdout(io.StringIO()):
        script = Path(folder, f"script{suffix}")
        script.write_bytes(content)
        status = main(["explain", str(script), "--quiet"])
    return status, said.getvalue(), time.monotonic() - started


def repeated(*parts: str) -> Callable[[int], bytes]:
    """A text made of `parts`: the first, the second as often as asked for, and so on in turn."""
    return lambda times: "".join(part * (times if number % 2 else 1) for number, part in enumerate(parts)).encode()


# Deep and long texts: what is repeated is what parsers recurse on.
DEEP = [
    repeated("x = ", "(", "1", ")"),
    repeated("x = ", "[", "", "]"),
    repeated("x = ", "-", "1"),
    repeated("x = ", "not ", "1"),
    repeated("x", ".a", ""),
    repeated("x", "[0]", ""),
    repeated("x", "()", ""),
    repeated("x = 1", " + 1", ""),
    repeated("x = ", "lambda: ", "1"),
    repeated("x = ", "1 if x else ", "1"),
    repeated("", "if x: pass\nel", "se: pass"),
    repeated("x = f'", "{x}", "'"),
    repeated("", "x = ", "1"),
    repeated("", "x = 1\n", ""),  # a large file
    repeated("", "\t", "x = 1"),
    repeated("x = '", "é", "'"),
    lambda times: "".join(" " * depth + "if x:\n" for depth in range(min(times, 300))).encode() + b" " * 300 + b"x",
]
_deep = st.builds(lambda make, times: make(times), st.sampled_from(DEEP), st.sampled_from([1, 99, 199, 1500, 10_000]))
_odd_text = st.text(st.sampled_from("x=1 \t\f\v\r\n\0\\'\"#:()é\ufeff\u2028\x1a\x85"), max_size=60)
_encodings = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1", "cp1252", "shift_jis", "utf-7"])
_declared = st.sampled_from(
    ["utf-8", "latin-1", "utf-16", "rot13", "hex", "idna", "no-such-encoding", "cp037", "\0", ""]
)
_encoded = st.builds(
    lambda name, declared, text: f"# coding: {declared}\nx = '{text}'\n".encode(name, "replace"),
    _encodings,
    _declared,
    st.text(max_size=20),
)


def _cut(whole: list[bytes]) -> st.SearchStrategy[bytes]:
    """Files that were cut off, or in which some bytes are others."""
    return st.builds(
        lambda text, end, place, other: text[: end % len(text)][:place] + other + text[: end % len(text)][place:],
        st.sampled_from(whole),
        st.integers(0, 1 << 20),
        st.integers(0, 4000),
        st.binary(max_size=4),
    )


_scripts = st.one_of(st.binary(max_size=200), _odd_text.map(lambda t: t.encode()), _encoded, _deep, _cut(SCRIPTS))
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["cells", "source", "x"]), inner),
    max_leaves=8,
)
_cell = st.fixed_dictionaries(
    {},
    optional={
        "cell_type": st.sampled_from(["code", "markdown", "raw"]) | _json,
        "source": st.sampled_from(["x = 1", "%%time\nx", "!ls", "%cd /", "x = = 1", ["x = 1\n", "y"], ["\0"]]) | _json,
        "outputs": _json,
        "metadata": _json,
    },
)
_notebook = st.fixed_dictionaries(
    {}, optional={"cells": st.lists(_cell | _json, max_size=4) | _json, "nbformat": _json, "metadata": _json}
)
_notebooks = st.one_of(
    st.binary(max_size=100),
    (_json | _notebook).map(lambda value: json.dumps(value).encode()),
    _cut(NOTEBOOKS),
    st.integers(1, 200_000).map(lambda depth: b"[" * depth),
)
_files = st.one_of(st.tuples(_scripts, st.sampled_from([".py", "", ".txt"])), st.tuples(_notebooks, st.just(".ipynb")))


@settings(max_examples=max(100, settings.default.max_examples if settings.default else 0))
@given(_files)
@example((b"", ".py"))
@example((b"\xef\xbb\xbf", ".py"))
@example((b"\xff\xfex\x00", ".py"))
@example((b"x = 1\0", ".py"))
@example((b"x = 1\x0c\n\x0cy = 2\n", ".py"))
@example((b"if x:\n\ty\n        z\n", ".py"))
@example((b"{}", ".ipynb"))
@example((b'{"cells": [{"cell_type": "code", "source": 1}]}', ".ipynb"))
def test_any_file_ends_soon_with_a_documented_status_and_one_sentence(file: tuple[bytes, str]) -> None:
    status, said, seconds = ended(*file)

    assert status in ENDS
    assert said.count("\n") == 1 and said.startswith("shrinkrepro: ") and "Traceback" not in said
    assert seconds < SECONDS


@pytest.mark.parametrize("deep", DEEP, ids=[str(number) for number in range(len(DEEP))])
@pytest.mark.parametrize("times", [1000, 10_000, 300_000])
def test_deep_texts_do_too(deep: Callable[[int], bytes], times: int) -> None:
    status, said, seconds = ended(deep(times), ".py")

    assert status in ENDS and said.count("\n") == 1
    assert seconds < SECONDS


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no file without end here")
def test_a_file_without_end_does_too() -> None:
    said = io.StringIO()
    with redirect_stderr(said):
        assert main(["explain", "/dev/zero", "--quiet"]) == Exit.TOO_LARGE
    assert said.getvalue().count("\n") == 1


@pytest.mark.parametrize("name", ["hex", "rot13", "base64"])
def test_an_encoding_that_is_not_one_of_text_is_said_so(name: str) -> None:
    status, said, _ = ended(f"# coding: {name}\nx = 1\n".encode(), ".py")
    assert (status, said.count("\n")) == (Exit.ENCODING, 1)
