"""The control words of RTF that matter for its text (Rich Text Format specification 1.9.1)."""

from __future__ import annotations

CHARACTERS = {
    "line": "\n",
    "tab": "\t",
    "emdash": "\u2014",
    "endash": "\u2013",
    "emspace": " ",
    "enspace": " ",
    "qmspace": " ",
    "bullet": "\u2022",
    "lquote": "\u2018",
    "rquote": "\u2019",
    "ldblquote": "\u201c",
    "rdblquote": "\u201d",
    "zwj": "\u200d",
    "zwnj": "\u200c",
}
PARAGRAPH_ENDS = frozenset({"par", "sect", "page", "cell", "row", "nestcell", "nestrow"})
# Destinations whose text is wanted, and under which name it is collected.
ENTERED = {
    "listtext": "marker",
    "pntext": "marker",
    "footnote": "footnote",
    "annotation": "annotation",
    "atnauthor": "atnauthor",
    "title": "title",
    "author": "author",
    "subject": "subject",
    "stylesheet": "stylesheet",
    "fonttbl": "fonts",
    "shptxt": "text",
    "shpinst": "skip",
    "result": "text",
    "fldrslt": "text",
    "ud": "text",
}
_SKIPPED_NAMES = """
    pict object objdata fldinst colortbl info header headerl headerr headerf footer footerl footerr footerf sp sn sv
    shprslt nonshppict upr xe tc private operator keywords comment doccomm company category manager revtbl filetbl
    listtable listoverridetable rsidtbl generator datastore themedata colorschememapping latentstyles mmathpict
"""
SKIPPED = frozenset(_SKIPPED_NAMES.split())
# Windows character sets of fonts.
CHARSETS = {
    0: "cp1252",
    77: "mac_roman",
    128: "cp932",
    129: "cp949",
    130: "johab",
    134: "gb18030",
    136: "cp950",
    161: "cp1253",
    162: "cp1254",
    163: "cp1258",
    177: "cp1255",
    178: "cp1256",
    186: "cp1257",
    204: "cp1251",
    222: "cp874",
    238: "cp1250",
    254: "cp437",
    255: "cp850",
}
