"""Against other reducers: the same cases on the same machine, one reducer after the other, each by its own command.

    python benchmarks/peers.py [--only 011 ...] [--tools lithium ...] [--peers FOLDER ...] [--cap 1200] [--out X.json]

The others get what their users would write: a script that runs `python candidate.py` and looks for the message. It also
notes each call and keeps each candidate that holds, so that a reducer stopped at the cap counts with its smallest one.
Afterwards shrinkrepro explains each result: has it the same graph node, attribute and in-place operator as the
original? X.json is written after every measurement; what it holds already is not measured again. Prints a table in
Markdown, and how many times faster shrinkrepro is.

Only cases of one file are taken: few of the others reduce folders. A script that deletes files is left out: the others
run their candidates unprotected, and half of a path may be the path of something else.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from corpus.cases import cases, is_plain_script, labels, surroundings
from shrinkrepro.isolation.workers import processors
from shrinkrepro.program.source import count_tokens

ROOT = Path(__file__).resolve().parents[1]
OURS = "shrinkrepro"
CANDIDATE = "candidate.py"
_DELETES = "writes-and-deletes-files"
SLACK = 10  # a candidate may take so many times as long as the script itself

_INTERESTING = """\
#!/bin/sh
# called with the candidate's path, or without one in a folder that holds it
candidate=${{1:-{candidate}}}
echo >> {calls}
if timeout --kill-after=5 {seconds} {python} "$candidate" {arguments} 2>&1 | grep -q "modified by an inplace operation"
then
    cp "$candidate" {held}/$$ && mv {held}/$$ {held}/$$.py
    exit 0
fi
exit 1
"""
_LITHIUM = """\
import subprocess


def interesting(arguments, prefix):
    return subprocess.run(arguments).returncode == 0
"""
_PYSOURCE_MINIMIZE = """\
import subprocess
import sys
from pathlib import Path

from pysource_minimize import minimize

test, path = sys.argv[1], Path(sys.argv[2])


def holds(source):
    path.write_text(source, encoding="utf-8")
    return subprocess.run([test, path]).returncode == 0


path.write_text(minimize(path.read_text(encoding="utf-8"), holds), encoding="utf-8")
"""


@dataclass(frozen=True)
class Peer:
    """Another reducer: the command that shows that it is installed, how it is started, and where its result lies.

    `start` makes a command line from the path of that command, the script that tests a candidate, and the candidate.
    `files` are what it needs beside them. Paths are relative to the folder that it is started in.
    """

    command: str
    start: Callable[[str, str, str], list[str]]
    result: str = CANDIDATE
    files: tuple[tuple[str, str], ...] = ()


def _jobs() -> str:
    return str(processors())


PEERS = {
    "lithium": Peer(
        "lithium",
        lambda found, test, candidate: [found, "condition.py", test, candidate],
        files=(("condition.py", _LITHIUM),),
    ),
    "picire": Peer(
        "picire",
        lambda found, test, candidate: [
            *(found, "--input", candidate, "--test", test, "--parallel", "--jobs", _jobs(), "--out", "out")
        ],
        result=f"out/{CANDIDATE}",
    ),
    "pysource-minimize": Peer(
        "pysource-minimize",
        lambda found, test, candidate: [str(Path(found).with_name("python")), "driver.py", test, candidate],
        files=(("driver.py", _PYSOURCE_MINIMIZE),),
    ),
    "cvise": Peer("cvise", lambda found, test, candidate: [found, "--not-c", "--n", _jobs(), test, candidate]),
    "shrinkray": Peer("shrinkray", lambda found, test, candidate: [found, "--ui", "basic", test, candidate]),
}


@dataclass(frozen=True)
class Row:
    """One tool on one case.

    `plain` is what one run of the script took just before, `before` the script's tokens, `tokens` those of the result
    (None: there is none), `tests` the candidates run, `load` the mean load of the machine at the start and the end.
    `culprit` is what `verdict` says.
    """

    case: str
    tool: str
    cap: float
    plain: float
    seconds: float
    capped: bool
    tests: int
    before: int
    tokens: int | None
    culprit: str
    load: float


@dataclass(frozen=True)
class Ended:
    """How a reducer ended: its seconds, whether the cap stopped it, the tests it ran, its result if there is one."""

    seconds: float
    capped: bool
    tests: int
    text: str | None


def suitable(case: Path, told: Mapping[str, Any]) -> bool:
    """Whether the case is a plain script that needs nothing but itself, and deletes no files."""
    if _DELETES in told.get("features", []):
        return False
    beside = {path.name for path in case.iterdir()} - {"case.toml", "golden.py", "fix.patch", told["entry"]}
    beside = {name for name in beside if not name.startswith("fix-only-") and name != "__pycache__"}
    return is_plain_script(told) and not beside


def installed(names: Iterable[str], folders: Sequence[Path]) -> tuple[dict[str, str], list[str]]:
    """The paths of the commands of those that are installed, and the names of the others."""
    path = os.pathsep.join([*(str(folder / "bin") for folder in folders), os.environ.get("PATH", os.defpath)])
    looked = {name: shutil.which(PEERS[name].command, path=path) for name in names}
    return {name: found for name, found in looked.items() if found}, [name for name in looked if not looked[name]]


def interesting(work: Path, python: str, arguments: Sequence[str], seconds: float) -> Path:
    """Write the script that tests a candidate, which may take so many seconds, into a folder."""
    held = work / "held"
    held.mkdir()
    script = work / "interesting.sh"
    written = _INTERESTING.format(
        candidate=CANDIDATE,
        calls=shlex.quote(str(work / "calls")),
        held=shlex.quote(str(held)),
        seconds=max(1, round(seconds)),
        python=shlex.quote(python),
        arguments=shlex.join(arguments),
    )
    script.write_text(written, encoding="utf-8")
    script.chmod(0o755)
    return script


def calls(work: Path) -> int:
    """How often the script that tests a candidate has been called."""
    path = work / "calls"
    return len(path.read_bytes()) if path.exists() else 0


def smallest_held(work: Path) -> str | None:
    """The candidate with the fewest tokens of those that held."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((work / "held").glob("*.py"))]
    return min(texts, key=count_tokens, default=None)


def timed(command: Sequence[str], cwd: Path, environment: Mapping[str, str], cap: float) -> tuple[float, bool, str]:
    """Run a command, at most `cap` seconds: the seconds, whether it was stopped, and its standard output."""
    started = time.perf_counter()
    with (
        (cwd / "messages").open("ab") as messages,
        subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=messages,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        try:
            output, _ = process.communicate(timeout=cap)
            return time.perf_counter() - started, False, output
        except subprocess.TimeoutExpired:
            return cap, True, ""
        finally:
            _end_session(process.pid)


def _end_session(leader: int) -> None:
    """Kill whatever is left of a session: a candidate may be in a process group of its own."""
    subprocess.run(["pkill", "-KILL", "-s", str(leader)], check=False)
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return


def ours(case: Path, told: Mapping[str, Any], cap: float) -> Ended:
    """Reduce a case with shrinkrepro's own command."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        shutil.copy(case / told["entry"], work / CANDIDATE)
        command = [sys.executable, "-m", OURS, "--json", "--quiet", "--output", "minimal.py", CANDIDATE]
        seconds, capped, output = timed([*command, "--", *told["args"]], work, _surroundings(told), cap)
    document = json.loads(output) if output else {}
    reduced, candidates = document.get("reduced") or {}, document.get("candidates") or {}
    return Ended(seconds, capped, candidates.get("run", 0), reduced.get("source"))


def theirs(peer: Peer, found: str, case: Path, told: Mapping[str, Any], python: str, cap: float, plain: float) -> Ended:
    """Reduce a case with another reducer."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        work = Path(folder)
        shutil.copy(case / told["entry"], work / CANDIDATE)
        for name, text in peer.files:
            (work / name).write_text(text, encoding="utf-8")
        test = interesting(work, python, told["args"], plain * SLACK)
        (work / "scratch").mkdir()
        environment = {**_surroundings(told), "TMPDIR": str(work / "scratch")}
        seconds, capped, _ = timed(peer.start(found, str(test), CANDIDATE), work, environment, cap)
        result = work / peer.result
        if not capped and result.exists():
            return Ended(seconds, capped, calls(work), result.read_text(encoding="utf-8"))
        return Ended(seconds, capped, calls(work), smallest_held(work))


def _surroundings(told: Mapping[str, Any]) -> dict[str, str]:
    """The environment of every run; shrinkrepro is found from any folder."""
    return {**surroundings(told), "PYTHONPATH": str(ROOT)}


Suspect = tuple[str | None, str | None, str]


def suspect(document: Mapping[str, Any]) -> Suspect | None:
    """What tells one culprit from another, in a JSON document of shrinkrepro; None where none was found."""
    failure, culprit = document.get("failure"), document.get("culprit")
    return (failure["node"], failure["attribute"], culprit["operator"]) if failure and culprit else None


def verdict(original: Suspect | None, found: Suspect | None) -> str:
    """Whether a result has the culprit of the original: "same", or "other" and which; "nothing" where it has none."""
    if found is None:
        return "nothing"
    if found == original:
        return "same"
    node, attribute, operator = found
    return f"other: {node or 'hidden'}.{attribute or 'hidden'} by {operator or 'no call'}"


def explained(text: str, told: Mapping[str, Any], arguments: Sequence[str]) -> Suspect | None:
    """The suspect of a program, as shrinkrepro explains it."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / CANDIDATE).write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", OURS, "explain", "--json", "--quiet", CANDIDATE, "--", *arguments]
        _, _, output = timed(command, work, _surroundings(told), 600)
    return suspect(json.loads(output)) if output else None


def plain_run(case: Path, told: Mapping[str, Any], python: str) -> float:
    """Seconds of one run of the script itself, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        shutil.copy(case / told["entry"], work / CANDIDATE)
        return timed([python, CANDIDATE, *told["args"]], work, _surroundings(told), 600)[0]


def measured(case: Path, tool: str, found: str, python: str, cap: float) -> Row:
    """Measure one tool on one case."""
    told = labels(case)
    text = (case / told["entry"]).read_text(encoding="utf-8")
    load = os.getloadavg()[0]
    plain = plain_run(case, told, python)
    ended = ours(case, told, cap) if tool == OURS else theirs(PEERS[tool], found, case, told, python, cap, plain)
    load = (load + os.getloadavg()[0]) / 2
    culprit = "nothing"
    if ended.text is not None:
        original = explained(text, told, told["args"])
        culprit = verdict(original, explained(ended.text, told, [] if tool == OURS else told["args"]))
    return Row(
        case=case.name,
        tool=tool,
        cap=cap,
        plain=round(plain, 1),
        seconds=round(ended.seconds, 1),
        capped=ended.capped,
        tests=ended.tests,
        before=count_tokens(text),
        tokens=None if ended.text is None else count_tokens(ended.text),
        culprit=culprit,
        load=round(load, 1),
    )


def known(out: Path | None) -> list[Row]:
    """The rows of an earlier run; none where there is no file yet."""
    if out is None or not out.exists():
        return []
    return [Row(**row) for row in json.loads(out.read_text(encoding="utf-8"))]


def save(out: Path | None, rows: Iterable[Row]) -> None:
    """Write all rows, so that the file is whole at any time."""
    if out is None:
        return
    beside = out.with_name(f"{out.name}.new")
    beside.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
    beside.replace(out)


def missing(wanted: Iterable[tuple[str, str]], rows: Collection[Row], cap: float) -> list[tuple[str, str]]:
    """The pairs of case and tool, in order, that no row with this cap is about."""
    done = {(row.case, row.tool) for row in rows if row.cap == cap}
    return [pair for pair in wanted if pair not in done]


def ratios(rows: Collection[Row]) -> Iterator[tuple[Row, Row | None]]:
    """Each row of ours that has a result, with the fastest other tool whose result on that case is not smaller."""
    for own in sorted(rows, key=lambda row: row.case):
        if own.tool != OURS or own.tokens is None:
            continue
        others = [
            row
            for row in rows
            if row.case == own.case and row.tool != OURS and row.tokens is not None and row.tokens >= own.tokens
        ]
        yield own, min(others, key=lambda row: row.seconds, default=None)


def table(rows: Iterable[Row]) -> str:
    """One row a case and tool, in Markdown."""
    lines = [
        "| case | tool | wall | tests | tokens | culprit | one plain run | load |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in sorted(rows, key=lambda row: (row.case, [OURS, *PEERS].index(row.tool))):
        wall = f"> {row.cap:.0f} s" if row.capped else f"{row.seconds:.1f} s"
        tokens = f"{row.before} → {'none' if row.tokens is None else row.tokens}"
        lines.append(
            f"| {row.case} | {row.tool} | {wall} | {row.tests} | {tokens} | {row.culprit} | {row.plain:.1f} s"
            f" | {row.load:.1f} |"
        )
    return "\n".join(lines)


def summary(rows: Collection[Row]) -> str:
    """How many times faster shrinkrepro is than the fastest other tool with a result that is not smaller."""
    lines, factors, bounded = [], [], False
    for own, other in ratios(rows):
        if other is None:
            lines.append(f"{own.case}: nothing to compare with")
            continue
        factors.append(other.seconds / own.seconds)
        bounded = bounded or other.capped
        lines.append(
            f"{own.case}: {'more than ' if other.capped else ''}{factors[-1]:.1f} times as fast as {other.tool},"
            f" {own.tokens} tokens against {other.tokens}"
        )
    if factors:
        bound = " (those stopped at the cap count with the cap)" if bounded else ""
        lines.append(f"median of {len(factors)}: {statistics.median(factors):.1f} times as fast{bound}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--tools", nargs="*", default=[OURS, *PEERS], choices=[OURS, *PEERS])
    parser.add_argument("--peers", nargs="*", type=Path, default=[], help="folders whose bin/ holds their commands")
    parser.add_argument("--cap", type=float, default=1200, help="seconds for each tool on each case")
    parser.add_argument("--python", default=sys.executable, help="runs the candidates of the other tools")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the reducer that is running ends with us
    chosen = {case.name: case for case in cases(options.only) if suitable(case, labels(case))}
    found, absent = installed([tool for tool in options.tools if tool != OURS], options.peers)
    for name in absent:
        print(f"{name}: not installed, skipped", flush=True)
    rows = known(options.out)
    tools = [tool for tool in options.tools if tool not in absent]
    # tool by tool, so that one that is slow does not keep the others from any case
    for case, tool in missing([(case, tool) for tool in tools for case in chosen], rows, options.cap):
        row = measured(chosen[case], tool, found.get(tool, ""), options.python, options.cap)
        rows = [old for old in rows if (old.case, old.tool) != (case, tool)] + [row]
        save(options.out, rows)
        print(f"{case} {tool}: {row.seconds:.1f} s, {row.tests} tests, {row.tokens} tokens, {row.culprit}", flush=True)
    print()
    print(table(rows))
    print()
    print(summary(rows))


if __name__ == "__main__":
    main()
