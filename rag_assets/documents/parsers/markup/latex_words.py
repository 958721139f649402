"""What the macros and environments of LaTeX are, for its reader."""

from __future__ import annotations

LEVELS = ("part", "chapter", "section", "subsection", "subsubsection", "paragraph", "subparagraph")
# Arguments that are read apart from the text around them.
OPENED = frozenset({
    "title", "author", "date", "footnote", "footnotetext", "thanks", "caption", "cite", "citep", "citet", "parencite",
    "textcite", "autocite", "subtitle", "institute", "affiliation", "address", "email", "keywords", "frametitle",
})  # fmt: skip
DEFINITIONS = frozenset({
    "newcommand", "renewcommand", "providecommand", "def", "DeclareMathOperator", "DeclareRobustCommand",
})  # fmt: skip
VERBATIM = frozenset({"verbatim", "Verbatim", "lstlisting", "minted", "alltt", "code", "listing"})
MATH = frozenset({
    "equation", "align", "alignat", "gather", "multline", "eqnarray", "displaymath", "math", "flalign", "dmath",
    "tikzpicture", "tikzcd", "pspicture", "picture", "filecontents",
})  # fmt: skip
# Each with the number of its arguments in braces.
TABLES = {"tabular": 1, "tabularx": 2, "tabulary": 2, "longtable": 1, "supertabular": 1, "array": 1, "tabu": 1}
LABELLED = frozenset({
    "theorem", "lemma", "proof", "definition", "corollary", "proposition", "remark", "example", "exercise", "claim",
    "solution", "note", "warning", "tip",
})  # fmt: skip
# By how many arguments in braces say nothing to a reader; `name{}` is an environment.
_DROPPED = {
    1: "documentclass usepackage RequirePackage label ref eqref pageref autoref cref Cref nameref vref vspace hspace "
    "includegraphics input include bibliography bibliographystyle pagestyle thispagestyle color index glossary nocite "
    "geometry hypersetup graphicspath usetheme usecolortheme textcolor colorbox cline cmidrule raisebox parbox "
    "scalebox rotatebox phantom vphantom hphantom lstset lstinputlisting usetikzlibrary tikzset addbibresource "
    "pagenumbering linespread fontfamily fontseries fontshape selectlanguage foreignlanguage theoremstyle setmainfont "
    "inputencoding captionsetup sisetup href newcounter newlength minipage{} multicols{} thebibliography{} subfigure{} "
    "column{} otherlanguage{} spacing{}",
    2: "setlength addtolength setcounter addtocounter multicolumn rule resizebox fontsize newtheorem markboth "
    "titleformat settowidth wrapfigure{} fcolorbox setkeys PassOptionsToPackage multirow",
    3: "definecolor addcontentsline newenvironment renewenvironment DeclareFontFamily",
}
DROPPED = {name: count for count, names in _DROPPED.items() for name in names.split()}
SYMBOLS = {
    "ss": "ß", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "o": "ø", "O": "Ø", "l": "ł", "L": "Ł", "aa": "å",
    "AA": "Å", "i": "i", "j": "j", "dots": "…", "ldots": "…", "textellipsis": "…", "textendash": "–",
    "textemdash": "—", "LaTeX": "LaTeX", "TeX": "TeX", "LaTeXe": "LaTeX2e", "BibTeX": "BibTeX", "copyright": "©",
    "textcopyright": "©", "textregistered": "®", "texttrademark": "™", "S": "§", "P": "¶", "pounds": "£",
    "textsterling": "£", "euro": "€", "texteuro": "€", "textdegree": "°", "degree": "°", "textbackslash": "\\",
    "textasciitilde": "~", "textasciicircum": "^", "textbar": "|", "textless": "<", "textgreater": ">",
    "textquoteleft": "‘", "textquoteright": "’", "textquotedblleft": "“", "textquotedblright": "”",
    "textunderscore": "_", "textbullet": "•", "textmu": "µ", "dag": "†", "ddag": "‡", "slash": "/", "quad": " ",
    "qquad": " ", "space": " ", "thinspace": " ", "enspace": " ", "and": ", ", "glqq": "„", "grqq": "“",
    "guillemotleft": "«", "guillemotright": "»", "th": "þ", "TH": "Þ", "dh": "ð", "DH": "Ð", "dj": "đ", "ng": "ŋ",
    "textpm": "±", "texttimes": "×", "textdollar": "$", "textpercent": "%", "lbrack": "[", "rbrack": "]", "today": "",
}  # fmt: skip
# Signs that stand before a letter, as combining characters, which stand behind it.
ACCENTS = {
    "'": "\u0301", "`": "\u0300", "^": "\u0302", '"': "\u0308", "~": "\u0303", "=": "\u0304", ".": "\u0307",
    "u": "\u0306", "v": "\u030c", "H": "\u030b", "c": "\u0327", "d": "\u0323", "b": "\u0331", "k": "\u0328",
    "r": "\u030a", "t": "\u0361",
}  # fmt: skip
