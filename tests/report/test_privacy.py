from __future__ import annotations

import ast
import io
import tokenize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shrinkrepro.report.privacy import Private, private

HOSTILE = ["a+b(c", "loss", "x", "Zoë", "alice.b", "[root]", "torch", "user2", "\\d+", "o'neil"]


def hidden(user: str = "alice", home: str = "/home/alice", host: str = "alices-box") -> Private:
    return Private((home,), (user,), (host,))


@pytest.mark.parametrize("user", HOSTILE)
def test_a_name_is_taken_out_of_prose_whatever_characters_it_has(user: str) -> None:
    assert hidden(user, f"/somewhere/{user}").prose(f"run by {user} in /data/{user}/runs") == (
        "run by user in /data/user/runs"
    )


@pytest.mark.parametrize("user", HOSTILE)
def test_a_home_folder_is_taken_out_whatever_it_is_called(user: str) -> None:
    assert hidden("nobody9", f"/vol/{user}").paths(f"in /vol/{user}/train.py") == "in ~/train.py"


@pytest.mark.parametrize(
    "path", ["/home/bob/x.py", "/Users/bob/x.py", r"C:\Users\Bob Smith\x.py", r"C:\\Users\\bob\\x.py", "/root/x.py"]
)
def test_home_folders_of_others_are_taken_out_too(path: str) -> None:
    assert hidden().paths(f"in {path}") in ("in ~/x.py", r"in ~\x.py", r"in ~\\x.py")


@pytest.mark.parametrize("text", ["/data/home.py", "/homeless/x", "https://example.org/home/page", "/rooted/x"])
def test_what_only_looks_like_a_home_folder_stays(text: str) -> None:
    assert hidden().paths(text) == text


def test_a_folder_that_goes_on_with_the_name_of_the_home_folder_stays() -> None:
    assert hidden(home="/data/al").paths("/data/alpha/x.py") == "/data/alpha/x.py"


def test_host_names_are_taken_out_with_their_domain() -> None:
    names = Private((), (), ("gpu7.lab.example", "gpu7"))
    assert names.prose("on GPU7.lab.example, also gpu7") == "on host, also host"


def test_a_name_inside_a_longer_word_stays_and_one_beside_an_underscore_goes() -> None:
    assert hidden("al").prose("also al_2 and AL") == "also user_2 and user"


def test_a_user_called_like_a_variable_does_not_cost_the_program_its_variable() -> None:
    source = "loss = f(x)  # loss: by loss\nlog('loss of loss')\nloss.backward()\n"
    assert hidden("loss").code(source) == "loss = f(x)  # user: by user\nlog('user of user')\nloss.backward()\n"


def test_a_string_of_several_lines_is_cleaned_and_keeps_its_lines() -> None:
    source = 'a = """by alice\n/home/alice/x\n"""; b = "alice"  # alice\nalice = 1\n'
    assert hidden().code(source) == 'a = """by user\n~/x\n"""; b = "user"  # user\nalice = 1\n'


def test_the_head_of_a_compound_statement_is_cleaned() -> None:
    assert hidden().code("for x in load('alice'):") == "for x in load('user'):"


def test_in_a_sentence_code_between_backticks_is_treated_as_code() -> None:
    assert hidden("loss").sentence("loss wrote `loss += 1  # loss` at loss/train.py:3") == (
        "user wrote `loss += 1  # user` at user/train.py:3"
    )


def test_names_that_tell_nothing_stay() -> None:
    names = Private(("/",), ("root", "runner", ""), ("localhost",))
    assert names.prose("runner on localhost: /tmp as root") == "runner on localhost: /tmp as root"


@given(st.sampled_from(HOSTILE), st.sampled_from(["x = 1", "loss = 'x'  # torch", "torch.ones(1)\nx = f'{x!r} loss'"]))
def test_programs_stay_the_same_program_but_for_strings_and_comments(user: str, source: str) -> None:
    cleaned = hidden(user, f"/home/{user}").code(source)
    ast.parse(cleaned)
    assert names_in(cleaned) == names_in(source)


def names_in(source: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [token.string for token in tokens if token.type == tokenize.NAME]


def test_this_machine_is_asked_who_and_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "a+b(c")
    monkeypatch.setenv("HOME", "/vol/a+b(c")
    monkeypatch.setattr("socket.gethostname", lambda: "gpu7.lab.example")
    assert private().prose("a+b(c at gpu7 in /vol/a+b(c/x") == "user at host in ~/x"
