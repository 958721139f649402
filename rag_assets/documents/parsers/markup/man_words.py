"""What the escapes of roff and the macros of mdoc(7) stand for, for the reader of manual pages."""

from __future__ import annotations

from dataclasses import dataclass, field

CHARACTERS = {
    "-": "-", "e": "\\", " ": " ", "~": " ", "0": " ", "(": "(", "'": "´", "`": "`", "\\": "\\", "E": "\\", ".": ".",
    "em": "—", "en": "–", "hy": "-", "mi": "−", "bu": "•", "co": "©", "rg": "®", "tm": "™", "lq": "“", "rq": "”",
    "oq": "‘", "cq": "’", "aq": "'", "dq": '"', "ga": "`", "aa": "´", "ha": "^", "ti": "~", "rs": "\\", "ba": "|",
    "br": "│", "ul": "_", "at": "@", "sh": "#", "Do": "$", "Eu": "€", "Po": "£", "Ye": "¥", "ct": "¢", "de": "°",
    "sc": "§", "dg": "†", "dd": "‡", "lB": "[", "rB": "]", "lC": "{", "rC": "}", "la": "⟨", "ra": "⟩", "->": "→",
    "<-": "←", "ua": "↑", "da": "↓", "<=": "≤", ">=": "≥", "!=": "≠", "==": "≡", "+-": "±", "mu": "×", "di": "÷",
    "pl": "+", "eq": "=", "sq": "□", "ss": "ß", "ae": "æ", "AE": "Æ", "oe": "œ", "/o": "ø", "/O": "Ø", "oa": "å",
    "oA": "Å", "Fo": "«", "Fc": "»", "r!": "¡", "r?": "¿", "12": "½", "14": "¼", "34": "¾", "S1": "¹", "S2": "²",
    "S3": "³", "if": "∞", "sr": "√", "*a": "α", "*b": "β", "*m": "μ", "*p": "π", "*W": "Ω", "ci": "○", "OK": "✓",
    **{f"{mark}{letter}": letter + accent for mark, accent in
       (("'", "\u0301"), ("`", "\u0300"), ("^", "\u0302"), (":", "\u0308"), ("~", "\u0303"), (",", "\u0327"))
       for letter in "aeiouyncAEIOUYNC"},
}  # fmt: skip
STRINGS = {
    "Aq": "'", "lq": "“", "rq": "”", 'L"': '"', 'R"': '"', "C+": "C++", "--": "—", "R": "®", "Tm": "™", "C`": '"',
    "C'": '"', "PX": "POSIX", "(-": "-", "-": "-",
}  # fmt: skip
_ENCLOSED = {
    "Op": "[]", "Pq": "()", "Dq": "“”", "Sq": "‘’", "Qq": '""', "Ql": "‘’", "Aq": "<>", "Bq": "[]", "Brq": "{}",
}  # fmt: skip
_OPENING = {"Oo": "[", "Po": "(", "Do": "“", "So": "‘", "Qo": '"', "Ao": "<", "Bo": "[", "Bro": "{"}
_CLOSING = {"Oc": "]", "Pc": ")", "Dc": "”", "Sc": "’", "Qc": '"', "Ac": ">", "Bc": "]", "Brc": "}"}
_NAMES = {"Ux": "UNIX", "Bx": "BSD", "Bsx": "BSD/OS", "Nx": "NetBSD", "Fx": "FreeBSD", "Ox": "OpenBSD",
          "Dx": "DragonFly", "At": "AT&T UNIX", "St": ""}  # fmt: skip
_PLAIN = frozenset({
    "Ar", "Cm", "Ic", "Li", "Pa", "Ev", "Va", "Vt", "Em", "Sy", "No", "Fn", "Fa", "Ft", "Fd", "In", "Dv", "Er", "Tn",
    "Sx", "An", "Ad", "Ms", "Cd", "Lb", "Nm", "Nd", "Fl", "Ns", "Xr", "Pf", "Ap", "Bf", "Ef", "Lk", "Mt", "Fo", "Fc",
    "Ta", "Xo", "Xc", "%A", "%B", "%D", "%J", "%N", "%O", "%P", "%R", "%T", "%V", "%I", "%U", "Rv", "Ex",
})  # fmt: skip
_BEHIND = frozenset(".,:;)]?!")


class Mdoc:
    """Puts the words of a line of mdoc(7) together, and knows the name of the page from then on."""

    def __init__(self) -> None:
        self._name = ""

    def knows(self, name: str) -> bool:
        """Whether a macro says something within a line."""
        return any(name in group for group in (_PLAIN, _ENCLOSED, _OPENING, _CLOSING, _NAMES))

    def said(self, words: list[str]) -> str:
        """Return what a macro with its arguments shows, of which some are macros themselves."""
        line = _Line()
        for number, word in enumerate(words):
            rest = words[number + 1 :]
            alone = not rest or self.knows(rest[0]) or rest[0] in _BEHIND
            if word == "Nm":
                if number == 0 and not alone and not self._name:
                    self._name = rest[0]
                if alone:
                    line.put(self._name)
            elif word == "Ar" and alone:
                line.put("file ...")
            elif word == "Fl":
                line.dashed = not alone
                if alone:
                    line.put("-")
                    line.glued = bool(rest) and rest[0] != "Ar"
            elif word == "Xr" and len(rest) > 1 and rest[1][:1].isdigit():
                words[number + 1 : number + 3] = [f"{rest[0]}({rest[1]})"]
            else:
                line.add(word, is_last=not rest)
        return "".join(line.found + line.ends[::-1])


@dataclass
class _Line:
    """What is shown of a line so far, and how the next word is to be written."""

    found: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)  # what closes at the end of the line, outermost first
    glued: bool = False
    dashed: bool = False

    def put(self, text: str, behind: bool = False) -> None:
        """Write a word; `behind` the one before it, without a space."""
        if self.found and not self.glued and not behind:
            self.found.append(" ")
        self.found.append(text)
        self.glued = False

    def add(self, word: str, is_last: bool) -> None:
        """Write a word, or do what a macro says."""
        if word in ("Ns", "Ap"):
            self.glued = True
        elif word == "Nd":
            self.put("–")
        elif word in _ENCLOSED or word in _OPENING or word in ("(", "["):
            self.put(_ENCLOSED.get(word, _OPENING.get(word, word))[0])
            self.ends += [_ENCLOSED[word][1]] if word in _ENCLOSED else []
            self.glued = True
        elif word in _CLOSING:
            self.put(_CLOSING[word], behind=True)
            self.dashed = False
        elif word in _NAMES:
            self.put(_NAMES[word])
        elif word in _PLAIN:
            self.dashed = False
        elif word in _BEHIND:
            if is_last:  # a full stop stands behind what the line encloses
                self.found += self.ends[::-1]
                self.ends = []
            self.put(word, behind=True)
        else:
            self.put(f"-{word}" if self.dashed else word)
