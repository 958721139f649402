"""reStructuredText, by docutils: what a reader of the page sees, also of the words that Sphinx has added to it."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from docutils import nodes  # type: ignore[import-untyped]
from docutils.core import publish_doctree, publish_from_doctree  # type: ignore[import-untyped]
from docutils.parsers.rst import Directive, directives, roles  # type: ignore[import-untyped]

from rag_assets.documents.building import TextBuilder
from rag_assets.documents.parsers.html.page import add_page

_CODE = frozenset({
    "code-block", "sourcecode", "highlight-block", "literalinclude", "testcode", "testsetup", "testcleanup",
    "testoutput", "doctest", "prompt", "ipython", "parsed-literal-block", "productionlist", "graphviz", "digraph",
    "graph", "mermaid", "uml", "plantuml", "jupyter-execute", "terminal", "tabularcolumns",
})  # fmt: skip
# They say something to the program that makes the pages, and show nothing themselves.
_UNSEEN = frozenset({
    "toctree", "index", "highlight", "highlightlang", "currentmodule", "py:currentmodule", "module", "py:module",
    "default-domain", "default-role", "sectionauthor", "moduleauthor", "codeauthor", "tabularcolumns", "testsetup",
    "testcleanup", "kernel-doc", "automodule", "autoclass", "autofunction", "automethod", "autosummary", "autodata",
    "autoattribute", "autoexception", "doxygenclass", "doxygenfunction", "doxygenfile", "inheritance-diagram",
    "literalinclude", "include", "raw", "meta", "ifconfig-condition", "todolist", "cssclass", "rst-class",
})  # fmt: skip
_TITLED = {
    "seealso": "See also",
    "versionadded": "Added in version",
    "versionchanged": "Changed in version",
    "versionremoved": "Removed in version",
    "deprecated": "Deprecated since version",
    "deprecated-removed": "Deprecated since version",
    "todo": "To do",
    "centered": "",
    "rubric": "",
}
_SPOKEN = frozenset({"exception", "struct", "enum", "union"})
_OURS = _UNSEEN | _CODE | {"class"}  # that docutils knows, too, and means something else or takes other options
_STYLE = re.compile(r"[a-z][a-z0-9 _-]*")  # a class of docutils; that of a program has arguments, or capitals
_EXPLICIT = re.compile(r"^(.*?)\s*<([^<>]*)>$", re.DOTALL)
_UNRESOLVED = re.compile(r"^`?(.*?)(?:\s*<[^<>]*>)?`?_{1,2}$|^\|(.*)\|_?$", re.DOTALL)
_SETTINGS: dict[str, Any] = {
    "report_level": 5,
    "halt_level": 5,
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "embed_stylesheet": False,
    "stylesheet_path": None,
    "math_output": "latex",
    "syntax_highlight": "none",
    "smart_quotes": False,
    "toc_backlinks": False,
    "footnote_backlinks": False,
    "section_self_link": False,
    "_disable_config": True,
    "traceback": True,  # else an error is printed, and ends the program
}
_SECONDS = 12.0  # of the processor; docutils takes a hundred times as long for a few texts as for others of their size
_lock = threading.Lock()


def add_rst(text: str, builder: TextBuilder) -> str:
    """Append what a text in reStructuredText says; the answer is its title, if it has one.

    Raises:
        Exception: docutils cannot read it; of any kind.
    """
    with _lock, _within(_SECONDS), _every_word_known():
        document = publish_doctree(text, settings_overrides=_SETTINGS)
    for node in list(document.findall(nodes.problematic)):
        node.parent.replace(node, nodes.Text(_shown(node.astext())))
    # In UTF-8, whatever the setting: the same one is in its first lines.
    add_page(publish_from_doctree(document, writer="html5", settings_overrides=_SETTINGS), builder)
    return str(document.get("title", ""))


def _shown(reference: str) -> str:
    """Return what is read of a reference or substitution whose other end is in another file."""
    found = _UNRESOLVED.match(reference)
    return (found[1] or found[2] or "") if found else reference


class _AnyOption(dict[str, Callable[[str], Any]]):
    """The options of a directive, to which Sphinx and others add their own."""

    def __bool__(self) -> bool:
        return True

    def __missing__(self, name: str) -> Callable[[str], Any]:
        return str


class _AnyDirective(Directive):  # type: ignore[misc]
    """A directive that docutils does not know: its argument and its content are shown."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec = _AnyOption()

    def run(self) -> list[nodes.Node]:
        name = self.name.lower()
        if name in _UNSEEN:
            return []
        if name in _CODE:
            source = "\n".join(self.content)
            return [nodes.literal_block(source, source)]
        said = self.arguments[0] if self.arguments else ""
        label = _TITLED.get(name)
        if name in _SPOKEN or (name == "class" and not _STYLE.fullmatch(said)):
            said = f"{name} {said}"
        elif name == "class":
            said = ""
        lines = said.split("\n") if label is None else [f"{label} {said}"]
        found: list[nodes.Node] = []
        for line in filter(None, map(str.strip, lines)):
            # A signature is no markup: its stars are arguments.
            words = [nodes.Text(line)] if label is None else self.state.inline_text(line, self.lineno)[0]
            found.append(nodes.paragraph("", "", *words))
        body = nodes.container()
        self.state.nested_parse(self.content, self.content_offset, body, match_titles=True)
        return found + list(body.children)


def _lenient(known: Any) -> Any:
    """Return a directive of docutils that takes options that it does not know."""
    if not isinstance(known, type):
        return known
    return type(known.__name__, (known,), {"option_spec": _AnyOption(getattr(known, "option_spec", None) or {})})


def _any_role(
    name: str, rawtext: str, text: str, lineno: int, inliner: Any, options: Any = None, content: Any = ()
) -> tuple[list[nodes.Node], list[nodes.Node]]:
    """Return the text that a role shows: its title, or the last part of a name that begins with a tilde."""
    shown = text.replace("\0", "\\")
    titled = _EXPLICIT.match(shown)
    if titled and titled[1]:
        shown = titled[1]
    elif shown.startswith("~"):
        shown = shown[1:].rpartition(".")[2]
    return [nodes.inline(rawtext, shown.lstrip("!"))], []


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raise TimeoutError once so many seconds of the processor have gone; in a thread there is no way to."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def _every_word_known() -> Iterator[None]:
    """Let docutils know a directive and a role of any name, as the programs do that add to it."""
    directive, role = directives.directive, roles.role

    def known_directive(name: str, language: Any, document: Any) -> tuple[Any, list[Any]]:
        found, messages = (None, []) if name.lower() in _OURS else directive(name, language, document)
        return (_lenient(found), messages) if found else (_AnyDirective, [])

    def known_role(name: str, language: Any, lineno: int, reporter: Any) -> tuple[Callable[..., Any], list[Any]]:
        found, messages = role(name, language, lineno, reporter)
        return (found, messages) if found else (_any_role, [])

    directives.directive, roles.role = known_directive, known_role
    try:
        yield
    finally:
        directives.directive, roles.role = directive, role
