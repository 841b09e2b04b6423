"""Takes out of a text what says who and where its author is: home folders, user and host names.

A name is taken out as a whole word, whatever its case. In program text that is done in comments and strings only, and
in folders' names: a user called "loss" must not cost the program its variable.
"""

from __future__ import annotations

import contextlib
import getpass
import io
import os
import re
import socket
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from shrinkrepro.program.source import Program, SourceFile

# Names that say nothing about anybody.
_NOBODY = {"", "root", "user", "host", "admin", "administrator", "localhost", "runner", "ubuntu", "debian", "docker"}
_HOME = re.compile(
    r"(?<![\w.])(?:/home/[^/\s'\"`:;,)]+|/Users/[^/\s'\"`:;,)]+|/root\b"
    r"|[A-Za-z]:[/\\]+Users[/\\]+(?:[^/\\:*?\"<>|\r\n]+(?=[/\\])|[^/\\\s'\"`:;,)]+))"
)


@dataclass(frozen=True)
class Private:
    """What must not be shown: home folders, user names and host names of this machine."""

    homes: tuple[str, ...]
    users: tuple[str, ...]
    hosts: tuple[str, ...]

    def prose(self, text: str) -> str:
        """The text with every trace of them taken out."""
        for pattern, word in self._names():
            text = pattern.sub(word, self.paths(text))
        return self.paths(text)

    def paths(self, text: str) -> str:
        """The text with home folders, of anybody, taken out."""
        for home in sorted(filter(_tells, self.homes), key=len, reverse=True):
            text = re.sub(rf"{re.escape(home)}(?![\w.-])", "~", text)
        return _HOME.sub("~", text)

    def sentence(self, text: str) -> str:
        """Prose in which code stands between backticks."""
        parts = text.split("`")
        return "`".join(self.code(part) if number % 2 else self.prose(part) for number, part in enumerate(parts))

    def program(self, program: Program) -> Program:
        """The program as it may be shown: its texts, and the names of its folders and files."""
        files = [SourceFile.original(self.prose(file.path), self.code(file.text)) for file in program]
        call = replace(program.invocation, entry=self.prose(program.invocation.entry))
        return Program(tuple(files), call)

    def code(self, text: str) -> str:
        """Python's text with every trace of them taken out of comments and strings, and home folders everywhere."""
        lines = text.splitlines(keepends=True)
        for token in reversed(list(_tokens(text))):
            if _is_text(token):
                _replace(lines, token, self.prose)
        return self.paths("".join(lines))

    def _names(self) -> Iterator[tuple[re.Pattern[str], str]]:
        for names, word in ((self.hosts, "host"), (self.users, "user")):
            for name in sorted(names, key=len, reverse=True):
                if name.lower() not in _NOBODY:
                    # not \b: a name may begin or end with a dot, and "alice_2" is about Alice
                    yield re.compile(rf"(?<![^\W_]){re.escape(name)}(?![^\W_])", re.IGNORECASE), word


def private() -> Private:
    """What must not be shown of this machine and of who uses it."""
    host = socket.gethostname()
    users = {os.environ.get(name, "") for name in ("USER", "LOGNAME", "USERNAME")}
    homes: set[str] = set()
    with contextlib.suppress(KeyError, OSError):  # a user without a name
        users.add(getpass.getuser())
    with contextlib.suppress(RuntimeError):  # a user without a home
        homes.add(str(Path.home()))
    return Private(tuple(homes), tuple(sorted(users)), tuple({host, host.partition(".")[0]}))


def _tells(home: str) -> bool:
    return home.strip("/\\") != ""


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    """The tokens up to where the text stops being Python: what is shown may be the head of a compound statement."""
    try:
        yield from tokenize.generate_tokens(io.StringIO(text).readline)
    except (tokenize.TokenError, SyntaxError):
        return


def _is_text(token: tokenize.TokenInfo) -> bool:
    kinds = (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", None))
    return token.type in kinds


def _replace(lines: list[str], token: tokenize.TokenInfo, change: Callable[[str], str]) -> None:
    """Change the text of a token in place; those behind it are done already."""
    (first, start), (last, end) = token.start, token.end
    whole = "".join(lines[first - 1 : last])
    tail = len(lines[last - 1]) - end
    stop = len(whole) - tail
    lines[first - 1 : last] = [whole[:start] + change(whole[start:stop]) + whole[stop:], *[""] * (last - first)]
