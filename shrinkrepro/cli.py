"""The command line: its options, its three commands, and which exit status a run gets. What it does is done elsewhere.

Modules that import libcst or rich are imported only once a script is to be run, so that `--help` answers at once.
"""

# ruff: noqa: PLC0415

from __future__ import annotations

import json
import os
import shlex
import signal
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from shrinkrepro import __version__
from shrinkrepro.errors import MEANING, Exit, ShrinkReproError

if TYPE_CHECKING:
    from rich.console import Console

    from shrinkrepro.isolation.backend import Backend
    from shrinkrepro.isolation.cluster import Cluster
    from shrinkrepro.pipeline import Options
    from shrinkrepro.program.source import Program
    from shrinkrepro.report.files import Reports
    from shrinkrepro.results import Bisected, Explanation, Result
    from shrinkrepro.runtime.messages import Protection

Command = TypeVar("Command", bound=Callable[..., Any])

_MOST_INPUT = 16 << 20  # each run is sent it anew
_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@dataclass(frozen=True)
class Request:
    """What one command line asks for: a script with its arguments and environment, and how to show what is found.

    Either `script` or `module`, the dotted name given to -m, is there. `cells` are those of a notebook to be run, all
    when None; `inline` are installed packages to be treated like local modules. `protection` is None where the
    strongest is wanted that there is. `stdin` is what the script reads as standard input. `dask` is where the
    scheduler listens of the cluster that makes the runs; None: this machine makes them.
    """

    script: str | None
    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    module: str | None
    cells: frozenset[int] | None
    inline: tuple[str, ...]
    network: bool
    protection: Protection | None
    stdin: str
    dask: str | None
    as_json: bool
    quiet: bool
    plain: bool
    reporting: dict[str, Any]

    def __post_init__(self) -> None:
        if self.script is None and self.module is None:
            raise click.UsageError("Missing argument 'SCRIPT'")
        if self.cells is not None and (self.module is not None or not str(self.script).endswith(".ipynb")):
            raise click.UsageError("--cells is for notebooks")

    @property
    def path(self) -> str:
        """The path of the script, as given; for a module, what its name says."""
        return self.script or "" if self.module is None else self.module.replace(".", "/")

    def program(self) -> Program:
        """The program to explain or reduce.

        Raises ShrinkReproError when it is not there, not to be guarded so, or a report on it could not be written.
        """
        from shrinkrepro.report.files import check_reports

        program = self._loaded()
        check_reports(self.reports, program)
        call = replace(program.invocation, network=self.network, protection=self._protection(), stdin=self.stdin)
        return replace(program, invocation=call)

    def _protection(self) -> Protection:
        from shrinkrepro.runtime.guard import capabilities

        here = self.dask is None  # the workers of a cluster are asked there
        if here and self.protection == "kernel" and not capabilities().landlock_abi:
            raise ShrinkReproError(
                Exit.NO_KERNEL_GUARD,
                "the kernel cannot guard the runs: it has no Landlock, or has it switched off; --guard audit, the "
                "default here, guards against Python code only",
            )
        return self.protection or "kernel"

    def _loaded(self) -> Program:
        from shrinkrepro.program.load import load_module, load_script

        if self.module is None:
            return load_script(
                self.path, self.arguments, environment=self.environment, cells=self.cells, inline=self.inline
            )
        # after -m NAME there is no script: the first word is the first argument, as for python itself
        arguments = self.arguments if self.script is None else (self.script, *self.arguments)
        return load_module(self.module, arguments, environment=self.environment, inline=self.inline)

    @property
    def reports(self) -> Reports:
        """The reports to write."""
        from shrinkrepro.report.files import Reports

        return Reports(**self.reporting)

    def consoles(self) -> tuple[Console, Console]:
        """Where results and where messages go; results are kept from standard output when JSON is asked for."""
        from rich.console import Console

        terminal = False if self.plain else None  # None: if it is one
        out = Console(quiet=self.as_json, force_terminal=terminal)
        return out, Console(stderr=True, quiet=self.quiet, force_terminal=terminal)


def _assignments(context: click.Context, option: click.Parameter, values: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """NAME=VALUE in two parts; a NAME alone has the value that it has in our own environment."""
    assigned = []
    for value in values:
        name, given, text = value.partition("=")
        if not name:
            raise click.BadParameter(f"{value!r} is not of the form NAME=VALUE or NAME")
        if not given and name not in os.environ:
            raise click.BadParameter(f"{name} is not set here; give it a value: {name}=VALUE")
        assigned.append((name, text if given else os.environ[name]))
    return tuple(assigned)


def _numbers(context: click.Context, option: click.Parameter, value: str | None) -> frozenset[int] | None:
    """The numbers that "1-3,5" stands for."""
    if value is None:
        return None
    ranges = [part.partition("-") for part in value.split(",")]
    if not all(first.isdecimal() and (last.isdecimal() or not dash) for first, dash, last in ranges):
        raise click.BadParameter(f"{value!r} is not of the form 1-3,5")
    return frozenset(number for first, _, last in ranges for number in range(int(first), int(last or first) + 1))


def _standard_input(context: click.Context, option: click.Parameter, path: str | None) -> str:
    data = standard_input(path)
    if len(data) > _MOST_INPUT:
        raise click.BadParameter(f"more than {_MOST_INPUT >> 20} MiB; let the script read a file instead")
    return os.fsdecode(data)


def standard_input(path: str | None) -> bytes:
    """What the file named holds, our own standard input for "-"; of None, the file that this was redirected from.

    A pipe is read only when asked for: nobody may ever write to it, and waiting for that would hang.
    Raises ShrinkReproError when the file cannot be read.
    """
    try:
        if path is None and not stat.S_ISREG(os.fstat(0).st_mode):
            return b""
    except OSError:  # we were started without one
        return b""
    try:
        if path is not None and path != "-":
            return Path(path).read_bytes()
        with open(0, "rb", closefd=False) as file:
            begin = file.tell() if path is None else None
            data = file.read(_MOST_INPUT + 1)
            if begin is not None:
                file.seek(begin)  # it may be the list that a shell loop goes through
            return data
    except OSError as problem:
        raise ShrinkReproError(Exit.NO_SUCH_FILE, f"--stdin {path} cannot be read: {problem.strerror}") from problem


def _shared(command: Command) -> Command:
    """Add the arguments and options that all commands have."""
    seconds = click.FloatRange(min=0, min_open=True)
    for add in reversed(
        [
            click.argument("script", metavar="SCRIPT", required=False),
            click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGUMENTS]"),
            click.option("-m", "--module", metavar="NAME",
                         help="Run a module, as `python -m NAME` does; in place of SCRIPT."),
            click.option("--cells", callback=_numbers, metavar="1-3,5",
                         help="Of a notebook, run only these code cells, counted from 1."),
            click.option("--inline", multiple=True, metavar="PACKAGE",
                         help="Treat an installed package of pure Python like the script's own; may be repeated."),
            click.option("--allow-network", "network", is_flag=True,
                         help="Let the script and every candidate use the network, as docs/inputs.md says."),
            click.option("--guard", "protection", type=click.Choice(["off", "audit", "kernel"]),
                         help="What guards the runs, as docs/safety.md says.  [default: the strongest there is]"),
            click.option("--json", "as_json", is_flag=True, help="Print one JSON document, as docs/json.md says."),
            click.option("--quiet", "-q", is_flag=True, help="No progress and no messages other than problems."),
            click.option("--plain", is_flag=True, help="No live view and no colours on a terminal."),
            click.option("--timeout", type=seconds, default=600.0, show_default="600", metavar="SECONDS",
                         help="How long each of the first runs of the script may take."),
            click.option("--jobs", "-j", type=click.IntRange(min=1), metavar="N",
                         help="How many runs go on at once.  [default: the number of cores]"),
            click.option("--dask", metavar="ADDRESS",
                         help="Make all runs on the workers of the Dask cluster whose scheduler listens there, as "
                         "docs/cluster.md says; --jobs is then the number of their threads by default."),
            click.option("--tries", type=click.IntRange(min=1), default=1, show_default=True, metavar="N",
                         help="Repeat each run up to N times until it fails: for scripts that fail only now and then."),
            click.option("--env", "environment", multiple=True, callback=_assignments, metavar="NAME[=VALUE]",
                         help="Set an environment variable for the script, or pass on one that looks like a secret; "
                         "may be repeated."),
            click.option("--stdin", callback=_standard_input, metavar="FILE",
                         help="What each run of the script reads as standard input; - for what is piped in."),
            click.version_option(__version__, prog_name="shrinkrepro"),
        ]
    ):  # fmt: skip
        command = add(command)
    return command


def _reporting(command: Command) -> Command:
    """Add the options for reports, which the command gets as one dictionary."""
    file = click.Path(path_type=Path, dir_okay=False)
    options = [
        click.option("--markdown", type=file, metavar="FILE",
                     help="Write the report for a bug tracker; nothing in it says who or where you are."),
        click.option("--template", type=click.Choice(["pytorch", "github", "plain"]), default="pytorch",
                     show_default=True, help="The form of the Markdown."),
        click.option("--html", type=file, metavar="FILE",
                     help="Write the report to look at: one file with drawings and a replay, which needs no network."),
        click.option("--sarif", type=file, metavar="FILE",
                     help="Write the three places as SARIF 2.1.0, for code hosts and editors."),
        click.option("--annotations", type=click.Choice(["auto", "github", "lines", "none"]), default="auto",
                     show_default=True, help="Print the places for GitHub Actions, or as file:line:column for editors; "
                     "auto: where GitHub Actions runs this."),
    ]  # fmt: skip

    @wraps(command)
    def folded(**named: Any) -> Exit:
        own = ("markdown", "template", "html", "sarif", "annotations")
        reporting = {name: named.pop(name) for name in own}
        return cast(Exit, command(reporting=reporting, **named))

    for add in reversed(options):
        folded = add(folded)
    return cast(Command, folded)


@click.command(
    "shrinkrepro",
    context_settings=_SETTINGS,
    epilog="`shrinkrepro explain SCRIPT` stops after the explanation, `shrinkrepro bisect SCRIPT` finds a repair; see "
    "`shrinkrepro explain --help` and `shrinkrepro bisect --help`. `shrinkrepro list` shows the reductions that were "
    "cut off, `shrinkrepro clean` forgets them. A script that is itself called explain, bisect, list or clean is "
    "given as ./explain. Exit statuses: docs/exit-codes.md.",
)
@_shared
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="PATH",
              help="Where the smallest program goes.  [default: <SCRIPT>_repro.py in the current folder]")  # fmt: skip
@click.option("--budget", type=click.FloatRange(min=0), metavar="SECONDS",
              help="Stop shrinking after this time, with the smallest program so far.")  # fmt: skip
@click.option("--same", "sameness", type=click.Choice(["statement", "op", "any"]), default="statement",
              show_default=True, help="What must stay the same: the statement that writes in place, "
              "its operator, or only the kind of error.")  # fmt: skip
@click.option("--resume", is_flag=True,
              help="Go on from where an earlier run of the same command was cut off.")  # fmt: skip
@_reporting
def _reduce(
    output: Path | None,
    timeout: float,
    budget: float | None,
    jobs: int | None,
    sameness: Any,
    tries: int,
    *,
    resume: bool,
    **rest: Any,
) -> Exit:
    """Explain PyTorch's "modified by an inplace operation" error in SCRIPT, and shrink it to a minimal repro.

    Names the lines that saved the tensor, changed it (the culprit) and needed it; then writes the smallest program
    that still fails in the same way, verified in a fresh interpreter. SCRIPT itself is never changed; its
    own arguments follow after --, as in

        shrinkrepro train.py -- --epochs 3
    """
    request = Request(**rest)
    with _running(request, jobs) as (backend, at_once):
        from shrinkrepro.pipeline import Options

        options = Options(timeout=timeout, budget=budget, jobs=at_once, sameness=sameness, tries=tries)
        return reduce_and_write(request, options, output, backend, resume=resume)


@click.command("shrinkrepro list", context_settings=_SETTINGS)
def _list() -> Exit:
    """List the reductions that were cut off and can be taken up again with --resume, and those that go on."""
    from datetime import datetime

    from shrinkrepro.journal import all_in, journals

    for unfinished in all_in(journals()):
        known, started = unfinished.heading, datetime.fromtimestamp(unfinished.heading.started)
        size = "nothing smaller yet" if unfinished.tokens is None else f"{unfinished.tokens} tokens so far"
        state = "running" if unfinished.running else "cut off"
        click.echo(f"{Path(known.folder, known.script)}: {state}, {size}, started {started:%Y-%m-%d %H:%M}")
    return Exit.DONE


@click.command("shrinkrepro clean", context_settings=_SETTINGS)
def _clean() -> Exit:
    """Forget the reductions that were cut off; those that go on are left alone."""
    from shrinkrepro.journal import clean, journals

    click.echo(f"forgotten: {clean(journals())}")
    return Exit.DONE


@click.command("shrinkrepro explain", context_settings=_SETTINGS, epilog="Exit statuses: docs/exit-codes.md.")
@_shared
@_reporting
def _explain(timeout: float, jobs: int | None, tries: int, **rest: Any) -> Exit:
    """Explain PyTorch's "modified by an inplace operation" error in SCRIPT: saved where, changed where, needed where.

    The script is run a few times. Nothing is written but the reports that are asked for. Its own arguments follow
    after --.
    """
    request = Request(**rest)
    with _running(request, jobs) as (backend, at_once):
        from shrinkrepro.pipeline import Options

        return explain_only(request, Options(timeout=timeout, jobs=at_once, tries=tries), backend)


@click.command("shrinkrepro bisect", context_settings=_SETTINGS, epilog="Exit statuses: docs/exit-codes.md.")
@_shared
@click.option("--patch", "patch_file", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="Write the repair to FILE, for `patch -p1` or `git apply`.")  # fmt: skip
@click.option("--apply", "apply_it", is_flag=True,
              help="Make the repair in the script's files, if it is proven; backups are FILE.orig.")  # fmt: skip
@_reporting
def _bisect(patch_file: Path | None, apply_it: bool, timeout: float, jobs: int | None, tries: int, **rest: Any) -> Exit:
    """Find the smallest edit of SCRIPT that stops the "modified by an inplace operation" error, and prove it.

    Repairs are tried on the script, simplest first, until one stops the crash and leaves the loss, the gradients and
    the losses after it as the script meant them. Nothing is written unless --patch or --apply says so. The script's
    own arguments follow after --.
    """
    request = Request(**rest)
    with _running(request, jobs) as (backend, at_once):
        from shrinkrepro.pipeline import Options

        options = Options(timeout=timeout, jobs=at_once, tries=tries)
        return bisect_and_write(request, options, patch_file, backend, apply_it=apply_it)


@contextmanager
def _running(request: Request, jobs: int | None) -> Iterator[tuple[Backend, int | None]]:
    """What runs programs, and how many at once (None: as many as there are cores).

    It imports PyTorch while we import our own modules and read the script.
    """
    if request.dask is None:
        from shrinkrepro.isolation.zygote import Zygote

        with Zygote(ahead=["torch"]) as zygote:
            yield zygote, jobs
    else:
        with closing(_cluster(request.dask, kernel=request.protection == "kernel")) as cluster:
            yield cluster, jobs or cluster.threads


def _cluster(address: str, *, kernel: bool) -> Cluster:
    try:
        from shrinkrepro.isolation.cluster import Cluster
    except ImportError as problem:
        raise ShrinkReproError(
            Exit.NO_CLUSTER, f'--dask needs the package distributed ({problem}): pip install "shrinkrepro[dask]"'
        ) from problem
    return Cluster(address, kernel=kernel)


def explain_only(request: Request, options: Options, backend: Backend) -> Exit:
    """Explain the script's failure and show the explanation. Runs go to `backend`, which is closed at the end."""
    from shrinkrepro.pipeline import explain
    from shrinkrepro.report.console import Progress, explanation_text, show
    from shrinkrepro.report.json import explanation_document

    program = request.program()
    out, err = request.consoles()
    with Progress(err, request.path) as progress:
        explanation = explain(program, options, [progress], start=lambda: backend)
    if request.as_json:
        _print_json(explanation_document(explanation))
    show(out, explanation_text(explanation))
    return _reported(request, explanation, explanation.exit)


def bisect_and_write(
    request: Request, options: Options, patch_file: Path | None, backend: Backend, *, apply_it: bool
) -> Exit:
    """Find a repair of the script, show it, and write or apply it if asked to.

    Runs go to `backend`, which is closed at the end.
    """
    from rich.text import Text

    from shrinkrepro.pipeline import bisect
    from shrinkrepro.report.console import Progress, explanation_text, show
    from shrinkrepro.report.json import bisected_document
    from shrinkrepro.report.mending import mending_text

    program = request.program()
    out, err = request.consoles()

    def found(explanation: Explanation) -> None:
        show(err if request.as_json else out, explanation_text(explanation))

    with Progress(err, request.path, found) as progress:
        bisected = bisect(program, options, [progress], start=lambda: backend)
    show(out, Text())
    show(out, mending_text(bisected.explanation.program, bisected.mending, colour=out.is_terminal))
    status, said = _repaired(bisected, patch_file, apply_it=apply_it)
    for line in said:
        show(err if request.as_json else out, Text(line))
    if request.as_json:
        _print_json(bisected_document(bisected, status))
    return _reported(request, bisected, status)


def _patching(root: str, patch_file: Path) -> str:
    """The command that applies a patch of the files below `root`."""
    folder = os.path.relpath(root)
    there = [] if folder == os.curdir else ["-d", shlex.quote(folder)]
    return " ".join(["patch -p1", *there, "<", shlex.quote(str(patch_file))])


def _repaired(bisected: Bisected, patch_file: Path | None, *, apply_it: bool) -> tuple[Exit, list[str]]:
    """Write the repair where asked to: the exit status, and a line for each thing done or left undone."""
    from shrinkrepro.report.patch import apply, changes, write_patch

    program, chosen, said = bisected.explanation.program, bisected.mending.chosen, list[str]()
    if chosen is None or not (patch_file or apply_it):
        return bisected.exit, said
    try:
        made = changes(program, chosen.program)
        if patch_file is not None:
            write_patch(made, patch_file)
            said.append(
                f"patch written to {patch_file}; apply it with: {_patching(program.invocation.root, patch_file)}"
            )
        if apply_it and not chosen.proof.complete:
            said.append("nothing was applied: the repair changes numbers; if you want that, write it with --patch")
            return Exit.NOT_REPAIRED, said
        if apply_it:
            backups = apply(made)
            said += [f"changed {c.place}; as it was: {backup}" for c, backup in zip(made, backups, strict=True)]
    except ShrinkReproError as problem:
        return problem.exit, [*said, str(problem)]
    return bisected.exit, said


def reduce_and_write(
    request: Request, options: Options, output: Path | None, backend: Backend, *, resume: bool
) -> Exit:
    """Reduce the script, write the smallest program, show what was found.

    Runs go to `backend`, which is closed at the end.
    """
    from shrinkrepro.pipeline import Explained, reduce
    from shrinkrepro.reduction.engine import Adopted
    from shrinkrepro.report.console import Progress, explanation_text, result_text, show
    from shrinkrepro.report.json import to_document
    from shrinkrepro.report.script import Draft, check_output, default_output

    program = request.program()
    target = output or default_output(request.path)
    check_output(program, target)
    out, err = request.consoles()
    draft = Draft(target)
    explanations: list[Explanation] = []

    def found(explanation: Explanation) -> None:
        show(err if request.as_json else out, explanation_text(explanation))

    def keep(event: object) -> None:
        if isinstance(event, Explained):
            explanations.append(event.explanation)
        elif isinstance(event, Adopted):
            draft.keep(event.program, explanations[0])

    with _journal(request, program, options, backend, err, resume=resume) as (recorded, write_down):
        try:
            with Progress(err, request.path, found, options.budget) as progress:
                result = reduce(program, options, [keep, write_down, progress], start=lambda: recorded)
        except KeyboardInterrupt:
            if draft.file is None:
                raise
            raise ShrinkReproError(
                Exit.INTERRUPTED,
                f"interrupted; the smallest program so far is {draft.file}, not checked in a fresh interpreter; "
                "--resume goes on from there",
            ) from None
        result, status = _written(result, target)
        draft.replaced_by(result.reduced)
    if request.as_json:
        _print_json(to_document(result))
    show(out, result_text(result, colour=out.is_terminal))
    return _reported(request, result, status)


def _reported(request: Request, found: Explanation | Bisected | Result, status: Exit) -> Exit:
    """Write the reports that are asked for, and say where they are; the exit status.

    Raises ShrinkReproError when one cannot be written.
    """
    from rich.text import Text

    from shrinkrepro.report.console import show
    from shrinkrepro.report.files import annotation_lines, write_reports
    from shrinkrepro.results import findings

    out, err = request.consoles()
    said, known = err if request.as_json else out, findings(found)
    for line in write_reports(request.reports, known):
        show(said, Text(line))
    for line in annotation_lines(request.reports, known):
        print(line, file=sys.stderr if request.as_json else sys.stdout)
    return status


@contextmanager
def _journal(
    request: Request, program: Program, options: Options, backend: Backend, err: Console, *, resume: bool
) -> Iterator[tuple[Backend, Callable[[object], None]]]:
    """The backend with its runs written down, and who is to hear of the programs that are adopted.

    The journal stays when the reduction does not come to its end: with Ctrl-C, with --budget, with the machine.
    """
    from rich.text import Text

    from shrinkrepro.isolation.journaled import Journaled
    from shrinkrepro.journal import Journal, cut_off, identity, journals
    from shrinkrepro.reduction.engine import Adopted, Stopped
    from shrinkrepro.report.console import show
    from shrinkrepro.report.environment import versions

    settings = (options.timeout, options.sameness, options.tries)
    known, folder, reports = identity(program, settings, versions()), journals(), dict[str, deque[str]]()
    journal = None
    try:
        if resume:
            journal, reports = Journal.resume(folder, known) or (None, reports)
            if journal is None:
                show(err, Text("nothing to go on from: no run of the same command was cut off; beginning anew"))
        elif cut_off(folder, known):
            show(err, Text("an earlier run of this was cut off; --resume goes on from there"))
        journal = journal or Journal.begin(folder, program, known, request.path)
    except OSError as problem:
        show(err, Text(f"this run cannot be resumed, should it be cut off: {problem}"))
        yield backend, lambda event: None
        return
    done = False

    def write_down(event: object) -> None:
        nonlocal done
        if isinstance(event, Adopted):
            journal.adopted(event.size)
        elif isinstance(event, Stopped):
            done = event.reason == "fixpoint"

    try:
        yield Journaled(backend, journal.report, reports), write_down
    except ShrinkReproError as problem:
        done = problem.exit not in (Exit.INTERRUPTED, Exit.NO_CLUSTER)
        raise
    finally:
        if journal.problem is not None:
            show(err, Text(f"this run cannot be resumed: {journal.problem}"))
        journal.close(done=done or journal.problem is not None)


def _written(result: Result, target: Path) -> tuple[Result, Exit]:
    """The result once its program is on disk. What was found is not lost where writing fails: a note says so."""
    from shrinkrepro.report.script import write

    if result.reduced is None:
        return result, result.exit
    try:
        path = write(result.reduced, result.explanation, target)
    except OSError as problem:
        note = f"The program could not be written to {target}: {problem.strerror}."
        return replace(result, notes=(*result.notes, note)), Exit.OUTPUT_UNWRITABLE
    return replace(result, reduced=replace(result.reduced, path=str(path))), result.exit


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (that of this process when None) and return its exit status."""
    from shrinkrepro.report.stream import enduring_output

    with _ended_as_by_ctrl_c(), enduring_output():
        return _run(list(sys.argv[1:] if arguments is None else arguments))


@contextmanager
def _ended_as_by_ctrl_c() -> Iterator[None]:
    """Within, the wish to end us (SIGTERM) and a terminal that was closed (SIGHUP) do what Ctrl-C does."""
    signals = [number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None]
    if threading.current_thread() is not threading.main_thread():
        signals = []  # only the main thread may say what signals do
    before = {number: signal.signal(number, signal.default_int_handler) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _run(words: list[str]) -> int:
    own = words[: words.index("--")] if "--" in words else words
    named = {"explain": _explain, "bisect": _bisect, "list": _list, "clean": _clean}.get(words[0]) if words else None
    command = named or _reduce
    try:
        status = Exit(command.main(words[1:] if named else words, prog_name=command.name, standalone_mode=False))
        if status is not Exit.DONE:
            print(f"shrinkrepro: {MEANING[status]}", file=sys.stderr)
        return int(status)
    except ShrinkReproError as problem:
        status, message = problem.exit, str(problem)
    except click.UsageError as problem:
        status, message = Exit.USAGE, _usage(problem)
    except click.Abort:
        status, message = Exit.INTERRUPTED, "interrupted; nothing was written"
    if "--json" in own:
        from shrinkrepro.report.json import problem_document

        _print_json(problem_document(status, message))
    print(f"shrinkrepro: {message}", file=sys.stderr)
    return int(status)


def _usage(problem: click.UsageError) -> str:
    sentence = problem.format_message().rstrip(".")
    if isinstance(problem, click.NoSuchOption):
        return f"{sentence}; options of the script go after --"
    return f"{sentence}; see shrinkrepro --help"


def _print_json(document: dict[str, Any]) -> None:
    json.dump(document, sys.stdout, indent=2)
    print()
