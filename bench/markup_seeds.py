"""A small file in each light markup, with most of what it can hold."""

from __future__ import annotations

_ASCIIDOC = """= Guide
:product: Pump

Text of {product}, https://a.example/[a *link*] and <<b,c>>.

== Part

* One
** Two
. Three

[source]
----
code
----

|===
|a |b
|c
|===

NOTE: More.

Term:: Said
////
unseen
////
"""
_ORG = """#+title: Guide

* TODO Part :tag:
:PROPERTIES:
:ID: 1
:END:

Text *bold* [[a][link]].

- one
  - two

| a | b |
|---+---|
#+begin_src
code
#+end_src
"""
_RST = """Guide
=====

Text :ref:`a <b>` and |c|, `d <e>`_.

Part
----

* One

  * Two

.. note:: More

.. function:: f(x)

   Said.

::

   code

== ==
a  b
== ==
c  d
== ==
"""
_LATEX = r"""\documentclass{article}\newcommand{\p}{Pump}
\title{Guide}
\begin{document}
\section{One {two}}

Text $x^2$ of \p{}, M\"uller\footnote{note}. % unseen
\begin{itemize}\item a\item[b] c\end{itemize}
\begin{tabular}{l|l}a & b \\ c & d\end{tabular}
\begin{verbatim}
code
\end{verbatim}
\begin{align}a&=b\end{align}
\end{document}
"""
_MAN = r""".TH PUMP 1 "May 2026"
.SH NAME
pump \- turn \fBvalves\fR
.TP
.BR \-v ", " \-\-valve =\fIN\fR
Text \(bu more.
.RS
.IP a) 2
Inner
.RE
.nf
code
.fi
.TS
tab(;);
l l.
a;b
.TE
.ie n .IP one
.el .IP two
.Bl -tag
.It Fl x Ar file Ns , Op Fl y
Said.
.El
"""
MARKUP: dict[str, bytes] = {
    "a.adoc": _ASCIIDOC.encode(),
    "a.org": _ORG.encode(),
    "a.rst": _RST.encode(),
    "a.1": _MAN.encode(),
    "a.tex": _LATEX.encode(),
}
