"""Terms prepared in a process of its own, on a processor that would else have nothing to do."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from rag_assets.children import Child, call_of_main, plain_environment, start_python
from rag_assets.terms import TermsVersion, prepare
from rag_assets.terms.worker import receive, send

_AT_ONCE = 50  # texts that are sent together
_END_S = 10.0


class TermsBeside:
    """Prepares the terms of lists of texts, one list after the other, while its caller does something else."""

    def __init__(self, process: Child, version: TermsVersion) -> None:
        self._process: Child | None = process
        self._version = version
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="terms")

    def ask(self, texts: Sequence[str]) -> Callable[[], list[str]]:
        """Have their terms prepared; what is returned waits for them.

        It does not wait idly: it prepares the last texts itself while the process is at the first ones, and all that
        the process does not answer, because it is gone.
        """
        parts = [list(texts[start : start + _AT_ONCE]) for start in range(0, len(texts), _AT_ONCE)]
        asked = [self._pool.submit(self._answer, part) for part in parts]

        def terms() -> list[str]:
            found: list[list[str]] = []
            for part, answer in zip(reversed(parts), reversed(asked), strict=True):
                made = None if answer.cancel() else answer.result()
                found.append([prepare(text, self._version) for text in part] if made is None else made)
            return [one for made in reversed(found) for one in made]

        return terms

    def close(self) -> None:
        """End the process, whatever it is at."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        if (process := self._process) is not None:
            process.kill()
            process.wait(_END_S)
        self._pool.shutdown()

    def _answer(self, texts: list[str]) -> list[str] | None:
        process = self._process
        if process is None:
            return None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            send(process.stdin, texts)
            terms = receive(process.stdout)
        except (OSError, EOFError, ValueError):
            terms = None
        if terms is None or len(terms) != len(texts):
            self._process = None  # killed, or out of memory
            process.kill()
            process.wait(_END_S)
            return None
        return terms


@contextmanager
def terms_beside(version: TermsVersion) -> Iterator[TermsBeside | None]:
    """A process that prepares terms, until the end of the block; None where it cannot be started."""
    try:
        process = start_python(
            *call_of_main("rag_assets.terms.worker", version),
            environment=plain_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        yield None
        return
    with process:
        beside = TermsBeside(process, version)
        try:
            yield beside
        finally:
            beside.close()
            with suppress(OSError):  # what it has not read
                assert process.stdin is not None
                process.stdin.close()
