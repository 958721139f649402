"""Light markup is read as its readers see it: without the marks, and with all that they mark."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_assets.documents.isolated import parse_file
from rag_assets.documents.model import Document
from rag_assets.documents.normalize import normalize
from rag_assets.documents.parsers.markup import rst
from rag_assets.documents.registry import parse

ASCIIDOC = """= Pump *manual*
Kim Lee <kim@example.com>
:product: Turbo 3000
:toc:

// nobody sees this
Intro to {product}: see https://example.com/a[the site], xref:b.adoc#c[another page] and <<valves,Valves>>.

[[valves]]
== Valves

* One
** Inner _two_
* Three
+
and its second paragraph

Torque:: How hard
Flow::
  How much

[source,python]
----
def f(x):  # {product}
    return x * 2
----

WARNING: Hot.

[%header,cols=2*]
|===
|Part |Price
|Gasket
|12.50
|===

////
nor this
////
include::more.adoc[]

Drains
------
A snake_case_name stays as it is.
"""
ORG = """#+TITLE: Pump manual
#+OPTIONS: toc:nil
# nobody sees this
* TODO Valves :urgent:
  :PROPERTIES:
  :ID: 1234
  :END:
Turn the *red* /valve/ to =left=, see [[https://example.com][the page]]; a/b/c stays.

- One
  goes on
  - Inner
- [X] done

| Part   | Price |
|--------+-------|
| Gasket | 12.50 |
#+TBLFM: $2=1
#+BEGIN_SRC python
def f(x):
    return x
,* no heading
#+END_SRC
#+begin_comment
nor this
#+end_comment
** Drains
Formula $x^2$.
"""
RST = """
Pump manual
===========

.. nobody sees this

Intro to :py:class:`~pump.Pump` and :ref:`the valves <valves>`, see `the site <https://example.com/>`_ and `More`_.

.. toctree::

   hidden/page

.. _valves:

Valves
------

* One

  - Inner *two*
* Three

.. note:: Hot.

.. code-block:: python
   :emphasize-lines: 2

   def f(x):
       return x * 2

.. function:: turn(valve, *, speed=1)

   Turns it.

   .. versionadded:: 3.2

======  =====
Part    Price
======  =====
Gasket  12.50
======  =====

.. math:: x^2
   :label: square

Drains
------

.. include:: /etc/passwd
.. raw:: html

   <b>nor this</b>

The end [#]_.

.. [#] A footnote.
"""
LATEX = r"""\documentclass[a4paper]{article}
\usepackage[utf8]{inputenc}
\newcommand{\product}{Turbo 3000\xspace}
\newcommand{\twice}[1]{#1#1}
\title{Pump manual}\author{Kim M\"uller \and J. Doe}
\begin{document}
\maketitle
Intro to \product: \emph{see} \href{https://example.com}{the site}~\cite{lee2020}. % nobody sees this
\section{Valves {\small A}}\label{sec:v}
Costs 5\,\% --- ``more'' than $x^2$\footnote{In 2020.}, \textcolor{red}{red}.
\begin{itemize}
  \item One
  \begin{enumerate} \item Inner \textbf{two} \end{enumerate}
  \item[Three] with a label
\end{itemize}
\begin{table}[ht]\caption{Prices}
\begin{tabular}{l|r} \hline Part & Price \\ \hline Gasket & \multicolumn{1}{c}{12.50} \\ \end{tabular}
\end{table}
\begin{lstlisting}[language=Python]
def f(x):
    return x % 2
\end{lstlisting}
\begin{equation} E = mc^2 \label{e} \end{equation}
\begin{comment}
nor this
\end{comment}
\subsection*{Drains}
\includegraphics[width=3cm]{pump.png} The end.
\end{document}
"""
MAN = r""".\" nobody sees this
.TH "PUMP" "1" "May 2026" "pumps 1.0"
.ie \n(.g .ds Aq \(aq
.de URL
\fI\\$2\fP
..
.SH NAME
pump \- turn valves
.SH SYNOPSIS
.nf
\fBpump\fR [\-v]
.B # second
.fi
.SH OPTIONS
.TP
.BR \-v ", " \-\-valve =\fIN\fR
Turn valve \fIN\fR; it doesn\*(Aqt
turn back.
.TP
\-x
.ie t printed
.el shown
.PP
See
.BR gasket (5).
.TS
tab(;);
l l.
Part;Price
Gasket;T{
12.50
T}
.TE
"""
MDOC = r""".\" nobody sees this
.Dd May 3, 2026
.Dt PUMP 1
.Os
.Sh NAME
.Nm pump
.Nd turn valves
.Sh SYNOPSIS
.Nm
.Op Fl xv
.Op Fl o Ar file : Ns Ar port
.Ar valve ...
.Sh DESCRIPTION
.Nm
turns
.Em valves ,
see
.Xr gasket 5 .
.Bl -tag -width Ds
.It Fl v
Says more
.Pq see below .
.El
.Bd -literal
$ pump -v
.Ed
"""
SEEN = {
    "pump.1": (MAN, [
        ("heading", "pump(1)", ()),
        ("heading", "NAME", ("pump(1)",)),
        ("paragraph", "pump - turn valves", ("pump(1)", "NAME")),
        ("heading", "SYNOPSIS", ("pump(1)",)),
        ("code", "pump [-v]\n# second", ("pump(1)", "SYNOPSIS")),
        ("heading", "OPTIONS", ("pump(1)",)),
        ("list", "- -v, --valve=N\n  Turn valve N; it doesn't turn back.\n- -x\n  shown", ("pump(1)", "OPTIONS")),
        ("paragraph", "See gasket(5).", ("pump(1)", "OPTIONS")),
        ("table", "Part | Price\nGasket | 12.50", ("pump(1)", "OPTIONS")),
    ]),
    "mdoc.1": (MDOC, [
        ("heading", "pump(1)", ()),
        ("heading", "NAME", ("pump(1)",)),
        ("paragraph", "pump – turn valves", ("pump(1)", "NAME")),
        ("heading", "SYNOPSIS", ("pump(1)",)),
        ("paragraph", "pump [-xv] [-o file:port] valve ...", ("pump(1)", "SYNOPSIS")),
        ("heading", "DESCRIPTION", ("pump(1)",)),
        ("paragraph", "pump turns valves, see gasket(5).", ("pump(1)", "DESCRIPTION")),
        ("list", "- -v\n  Says more (see below).", ("pump(1)", "DESCRIPTION")),
        ("code", "$ pump -v", ("pump(1)", "DESCRIPTION")),
    ]),
    "a.adoc": (ASCIIDOC, [
        ("heading", "Pump manual", ()),
        ("paragraph", "Kim Lee <kim@example.com>", ("Pump manual",)),
        ("paragraph", "Intro to Turbo 3000: see the site, another page and Valves.", ("Pump manual",)),
        ("heading", "Valves", ("Pump manual",)),
        ("list", "- One\n  - Inner two\n- Three\n  and its second paragraph\n  - Torque: How hard\n  - Flow: How much",
         ("Pump manual", "Valves")),
        ("code", "def f(x):  # {product}\n    return x * 2", ("Pump manual", "Valves")),
        ("paragraph", "WARNING: Hot.", ("Pump manual", "Valves")),
        ("table", "Part | Price\nGasket | 12.50", ("Pump manual", "Valves")),
        ("heading", "Drains", ("Pump manual",)),
        ("paragraph", "A snake_case_name stays as it is.", ("Pump manual", "Drains")),
    ]),
    "a.org": (ORG, [
        ("heading", "Pump manual", ()),
        ("heading", "Valves", ("Pump manual",)),
        ("paragraph", "TODO urgent", ("Pump manual", "Valves")),
        ("paragraph", "Turn the red valve to left, see the page; a/b/c stays.", ("Pump manual", "Valves")),
        ("list", "- One goes on\n  - Inner\n- ☒ done", ("Pump manual", "Valves")),
        ("table", "Part | Price\nGasket | 12.50", ("Pump manual", "Valves")),
        ("code", "def f(x):\n    return x\n* no heading", ("Pump manual", "Valves")),
        ("heading", "Drains", ("Pump manual", "Valves")),
        ("paragraph", "Formula $x^2$.", ("Pump manual", "Valves", "Drains")),
    ]),
    "a.rst": (RST, [
        ("heading", "Pump manual", ()),
        ("paragraph", "Intro to Pump and the valves, see the site and More.", ("Pump manual",)),
        ("heading", "Valves", ("Pump manual",)),
        ("list", "- One\n  - Inner two\n- Three", ("Pump manual", "Valves")),
        ("paragraph", "Note", ("Pump manual", "Valves")),
        ("paragraph", "Hot.", ("Pump manual", "Valves")),
        ("code", "def f(x):\n    return x * 2", ("Pump manual", "Valves")),
        ("paragraph", "turn(valve, *, speed=1)", ("Pump manual", "Valves")),
        ("paragraph", "Turns it.", ("Pump manual", "Valves")),
        ("paragraph", "Added in version 3.2", ("Pump manual", "Valves")),
        ("table", "Part | Price\nGasket | 12.50", ("Pump manual", "Valves")),
        ("code", "x^2", ("Pump manual", "Valves")),
        ("heading", "Drains", ("Pump manual",)),
        ("paragraph", "The end [1].", ("Pump manual", "Drains")),
        ("paragraph", "[1]", ("Pump manual", "Drains")),
        ("paragraph", "A footnote.", ("Pump manual", "Drains")),
    ]),
    "a.tex": (LATEX, [
        ("heading", "Pump manual", ()),
        ("paragraph", "Kim Müller, J. Doe", ("Pump manual",)),
        ("paragraph", "Intro to Turbo 3000 : see the site [lee2020].", ("Pump manual",)),
        ("heading", "Valves A", ("Pump manual",)),
        ("paragraph", "Costs 5 % — “more” than $x^2$, red.", ("Pump manual", "Valves A")),
        ("list", "- One\n  1. Inner two\n- Three with a label", ("Pump manual", "Valves A")),
        ("paragraph", "[^note]: In 2020.", ("Pump manual", "Valves A")),
        ("paragraph", "Prices", ("Pump manual", "Valves A")),
        ("table", "Part | Price\nGasket | 12.50", ("Pump manual", "Valves A")),
        ("code", "def f(x):\n    return x % 2", ("Pump manual", "Valves A")),
        ("paragraph", "E = mc^2", ("Pump manual", "Valves A")),
        ("heading", "Drains", ("Pump manual", "Valves A")),
        ("paragraph", "The end.", ("Pump manual", "Valves A", "Drains")),
    ]),
}  # fmt: skip


def only(data: bytes, name: str) -> Document:
    (record,) = parse_file(data, name)
    assert record.status == "ready", record.error
    assert record.document is not None
    return record.document


@pytest.mark.parametrize("name", SEEN)
def test_a_document_is_what_its_readers_see(name: str) -> None:
    source, expected = SEEN[name]
    document = only(source.encode(), name)
    found = []
    for block in document.blocks:
        text = document.text[block.start : block.end]
        found.append((block.kind, text, block.heading_path[:-1] if block.kind == "heading" else block.heading_path))
    assert found == expected
    assert document.title == expected[0][1]


@pytest.mark.parametrize("name", SEEN)
def test_what_shows_nothing_is_no_text(name: str) -> None:
    remark = {"a.adoc": "// a", "a.org": "# a", "a.rst": ".. a", "a.tex": "% a"}.get(name, '.\\" a')
    (record,) = parse_file(remark.encode(), name)
    assert record.status == "no_text"


def test_what_docutils_cannot_read_is_kept_as_written_with_its_headings() -> None:
    source = "Pumps\n=====\n\n" + "".join(f"{'  ' * depth}* a\n\n" for depth in range(400))
    document = only(source.encode(), "a.rst")
    assert document.metadata["quality"]["as_written"] is True
    assert document.text == source
    assert document.title == "Pumps"


def test_docutils_gets_no_more_than_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rst, "_SECONDS", 0.2)
    (record,) = parse(b"|a\n" * 20_000, "a.rst")
    assert record.document is not None
    assert record.document.metadata["quality"]["as_written"] is True


@pytest.mark.parametrize("name", ["a.adoc", "a.org", "a.tex", "a.man"])
@pytest.mark.parametrize(
    "piece",
    ["{", "$", "\\begin{a}", "\\footnote{", "\\[", "\\verb|", "[[", "{a}", "_a", "<<a", "http://a[", "xref:a[", "*a ",
     "|a\n", "* a\n", "====\n", "a::\n", ":a: {a}{a}\n", "#+begin_src\n", ":a:\n", "`a ", "a_ ", "|a| ", ".. a::\n\n ",
     "\\begin{tabular}{l}", "\\begin{lstlisting}", "((a", "++a", "~",
     ".TP\n", ".Bl\n", ".nf\n", ".if x \\{\n", ".de\n", "\\(", "\\f", ".TS\n", ".Op ", '.B "', "\\v'", "T{\n"],
)  # fmt: skip
def test_time_grows_with_the_length_alone(name: str, piece: str) -> None:
    source = piece * (20_000 // len(piece))
    before = time.process_time()
    (record,) = parse(source.encode(), name)
    assert record.status != "failed"
    assert time.process_time() - before < 5


_WORDS = st.text(st.sampled_from("ab \n*_`=|-+#:.[]{}\\<>$&%~^'\"/"), max_size=80)


@settings(max_examples=150, deadline=None)
@given(_WORDS, st.sampled_from(sorted(SEEN)))
def test_any_text_keeps_its_words_in_whole_blocks(text: str, name: str) -> None:
    source = f"{text}\n\nwombats stand here\n"
    (record,) = parse(source.encode(), name)
    document = record.document
    if document is None:
        return
    assert normalize(document.text) == document.text
    assert all(0 <= block.start < block.end <= len(document.text) for block in document.blocks)
    assert "".join(document.text[block.start : block.end] for block in document.blocks).strip()
