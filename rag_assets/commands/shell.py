"""How every command ends: one answer on stdout, one line on stderr where it failed, and the exit code."""

from __future__ import annotations

import io
import os
import re
import signal
import sys
import traceback
from _thread import interrupt_main
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from threading import Timer
from typing import Any, TextIO

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text
from typer._completion_classes import completion_init

from rag_assets.addresses import masked
from rag_assets.commands.lazy import Group
from rag_assets.errors import Interrupted, RagError, UsageError, alike, causes, did_you_mean, was_interrupted
from rag_assets.printing import printable as printable
from rag_assets.printing import printable_json, printable_lines

FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130
_PIPE_WIDTH = 120  # columns where stdout is no terminal


@dataclass(frozen=True)
class CommandResult:
    """What a command found: `payload` is printed with --json, otherwise `show` prints to the console.

    `code` is the exit code: an answer may be "no".
    """

    payload: Mapping[str, Any]
    show: Callable[[Console], None]
    code: int = 0


class _SafeConsole(Console):
    """Shows text as it is: nothing in it is markup, and no character of it acts. Breaks within a value are for
    `printable`, because here they are those of a layout."""

    def __init__(self, file: TextIO, width: int | None) -> None:
        # Only tables keep to the width of a pipe: what a script reads line by line is not broken.
        piped = width is not None
        super().__init__(file=file, width=width, soft_wrap=piped, markup=False, emoji=False, highlight=False)

    def render_str(self, text: str, **how: Any) -> Text:
        """See `Console.render_str`: strings are made harmless before their room is measured."""
        return super().render_str(printable_lines(text), **how)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """See `Console.render`."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable_lines(text), style, control)


def code_of(told: signal.Signals | None) -> int:
    """The exit code of what served until it was told to end."""
    return INTERRUPTED if told is signal.SIGINT else 0


def note(message: str, style: str = "dim") -> None:
    """A message on stderr, of one line or a few."""
    stderr_console().print(Text(printable_lines(message), style=style), soft_wrap=True)


def check_asking(as_json: bool, is_asked: bool, doing: str) -> None:
    """Refuse to ask where stdout is for JSON; `is_asked`: unless an option says that nobody has to be.

    Raises:
        UsageError: says how it is done without being asked.
    """
    if as_json and is_asked:
        raise UsageError(f"--json cannot ask; say --yes to {doing} without being asked")


def confirmed(question: str, doing: str) -> bool:
    """Ask on stderr, and read the answer from stdin.

    Raises:
        UsageError: nobody is there to answer.
    """
    note(question, "bold")
    line = sys.stdin.readline()
    if not line:
        raise UsageError(f"nobody is there to ask; say --yes to {doing} without being asked")
    return line.strip().lower() in ("y", "yes")


def stderr_console() -> Console:
    """A console for what is no answer: questions and what they are about."""
    return _console(sys.stderr)


def stdout_console() -> Console:
    """The console that answers are shown on."""
    return _console(sys.stdout)


def _console(file: Any) -> Console:
    width = None if file.isatty() or os.environ.get("COLUMNS") else _PIPE_WIDTH
    return _SafeConsole(file, width)


class RagGroup(Group):
    """The command group `rag`; no exception leaves it, whoever calls it."""

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> Any:
        """Run one command line and exit with its code."""
        words = list(sys.argv[1:] if args is None else args)
        extra.pop("prog_name", None)
        extra["standalone_mode"] = False
        completion_init()  # what the script of `rag completion` asks for, which ends here
        run = super().main
        options = words[: words.index("--")] if "--" in words else words
        sys.exit(guarded(lambda: run(words, prog_name="rag", **extra), "--json" in options))

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the words name."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            # Of this one typer would make a bare exit code, and lose what it says.
            raise RuntimeError("interrupted") from error


def guarded(run: Callable[[], Any], as_json: bool = False) -> int:
    """Run, print the answer or the error, and return the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Neither a file name nor a terminal that is not UTF-8 may end in an error while printing.
            stream.reconfigure(errors="backslashreplace")
    try:
        with _stdout_kept_clean() if as_json else _as_it_is():
            answer = run()
        if isinstance(answer, CommandResult):
            _print(answer, as_json)
            return answer.code
        return answer if isinstance(answer, int) else 0
    except (KeyboardInterrupt, typer.Abort) as error:
        return _interrupted(error, as_json)
    except BrokenPipeError:
        # Whoever read us has seen enough (`| head`); the interpreter must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:  # the last place that can turn an error into a message and an exit code
        return _interrupted(error, as_json) if was_interrupted(error) else _report(error, as_json)
    except BaseException as error:  # Dagster's own interrupt is no Exception
        if was_interrupted(error):
            return _interrupted(error, as_json)
        raise


@contextmanager
def _heard_again() -> Iterator[None]:
    """An interrupt that comes while the interpreter runs a callback, as it does often while it imports, is printed and
    lost there, and the work went on to its end: it is sent once more, after the callback."""
    before = sys.unraisablehook

    def lost(what: sys.UnraisableHookArgs) -> None:
        if issubclass(what.exc_type, KeyboardInterrupt):
            Timer(0.05, interrupt_main).start()
        else:
            before(what)

    sys.unraisablehook = lost
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextmanager
def resumable(kept: str) -> Iterator[None]:
    """Around work that takes long: an interrupt says what is `kept` of it, and that it can be run again."""
    try:
        with _heard_again():
            yield
    except Interrupted:
        raise
    except BaseException as error:
        if was_interrupted(error):
            raise Interrupted(f"interrupted; {kept}: run it again") from error
        raise


def _interrupted(error: BaseException, as_json: bool) -> int:
    told = next((cause for cause in causes(error) if isinstance(cause, Interrupted)), None)
    if told is not None:
        if as_json:
            _print_json({"error": {"type": "Interrupted", "message": str(told)}})
        note(str(told).capitalize())
    return INTERRUPTED


def _print(answer: CommandResult, as_json: bool) -> None:
    if as_json:
        _print_json(answer.payload)
    else:
        answer.show(stdout_console())
        sys.stdout.flush()


def _print_json(value: Mapping[str, Any]) -> None:
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(printable_json(value, ascii_only=not utf8), flush=True)


def _report(error: Exception, as_json: bool) -> int:
    message = _message(error)
    if as_json:
        _print_json({"error": {"type": _type_name(error), "message": message}})
    elif message:
        note(f"Error: {message}", "bold red")
    if _debug():
        traceback.print_exception(error, file=sys.stderr)
    return WRONG_USE if isinstance(error, UsageError) or _is_usage(error) else FAILED


def _debug() -> bool:
    from rag_assets.settings import load_settings  # pydantic, for which no command line should wait that goes well

    try:
        return load_settings().debug
    except UsageError:
        return False


def _is_usage(error: Exception) -> bool:
    # Typer brings its own copy of click's errors in some versions and click's in others.
    return callable(getattr(error, "format_message", None)) and getattr(error, "exit_code", FAILED) == WRONG_USE


def _type_name(error: Exception) -> str:
    return "UsageError" if _is_usage(error) else type(error).__name__


def _message(error: Exception) -> str:
    if _is_usage(error):
        text = _in_our_words(error.format_message())  # type: ignore[attr-defined]
        context = getattr(error, "ctx", None)
        end = "" if text.endswith((".", "?")) else "."
        return f"{text}{end} See: {context.command_path} --help" if text and context else text
    if isinstance(error, RagError):
        return str(error)
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {masked(lines[0]) if lines else 'no message'} (RAG_DEBUG=1 shows where)"


def _in_our_words(text: str) -> str:
    """What typer says of a wrong option or argument, without the name of Python's error; of a choice that there is not,
    with the one that was meant."""
    text = text.replace("Value error, ", "", 1)
    wrong = re.search(r"'([^']*)' is not one of (.+)", text)
    likely = alike(wrong[1], re.findall(r"'([^']+)'", wrong[2])) if wrong else []
    return f"{text.rstrip('.')}; {did_you_mean(likely)}" if likely else text


@contextmanager
def _as_it_is() -> Iterator[None]:
    yield


@contextmanager
def _stdout_kept_clean() -> Iterator[None]:
    """Whatever a library or one of its processes prints goes to stderr: Python's and the OS's stdout."""
    saved: int | None = None
    sys.stdout.flush()
    with suppress(OSError, AttributeError, ValueError):  # a stdout that is no file, as under a test runner
        saved = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if saved is not None:
            os.dup2(saved, sys.stdout.fileno())
            os.close(saved)
