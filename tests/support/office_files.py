"""Office files and archives, put together from their parts."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

OPENXML = "http://schemas.openxmlformats.org"
W = f'xmlns:w="{OPENXML}/wordprocessingml/2006/main"'
R = f'xmlns:r="{OPENXML}/officeDocument/2006/relationships"'
A = f'xmlns:a="{OPENXML}/drawingml/2006/main"'
P = f'xmlns:p="{OPENXML}/presentationml/2006/main"'
S = f'xmlns="{OPENXML}/spreadsheetml/2006/main"'
M = f'xmlns:m="{OPENXML}/officeDocument/2006/math"'
MC = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
_OFFICE = "application/vnd.openxmlformats-officedocument"

Parts = Mapping[str, str | bytes]


def zipped(parts: Parts) -> bytes:
    """The same bytes at any time of day."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for path, content in parts.items():
            archive.writestr(zipfile.ZipInfo(path), content, zipfile.ZIP_DEFLATED)
    return target.getvalue()


def types(main: str) -> str:
    return f'<Types><Override PartName="/main" ContentType="{_OFFICE}.{main}+xml"/></Types>'


def relations(**targets: str) -> str:
    """Relations by id; a target is `kind:path`."""
    found = ""
    for key, target in targets.items():
        kind, _, path = target.partition(":")
        found += f'<Relationship Id="{key}" Type="{OPENXML}/x/{kind}" Target="{path}"/>'
    return f"<Relationships>{found}</Relationships>"


def docx(body: str, more: Parts | None = None) -> bytes:
    document = f"<w:document {W} {R} {A} {M} {MC}><w:body>{body}</w:body></w:document>"
    return zipped(
        {
            "[Content_Types].xml": types("wordprocessingml.document.main"),
            "word/document.xml": document,
            **(more or {}),
        }
    )


def paragraph(text: str, style: str = "", properties: str = "") -> str:
    styled = f'<w:pStyle w:val="{style}"/>' if style else ""
    return f'<w:p><w:pPr>{styled}{properties}</w:pPr><w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def table(*rows: list[str]) -> str:
    """A Word table; a cell that begins with `<` is its own XML."""
    lines = ""
    for row in rows:
        cells = (cell if cell.startswith("<") else f"<w:tc>{paragraph(cell)}</w:tc>" for cell in row)
        lines += f"<w:tr>{''.join(cells)}</w:tr>"
    return f"<w:tbl>{lines}</w:tbl>"


def pptx(*slides: str, more: Parts | None = None) -> bytes:
    """A presentation; each slide is the XML of its shapes."""
    parts: dict[str, str | bytes] = {"[Content_Types].xml": types("presentationml.presentation.main")}
    numbers = range(1, len(slides) + 1)
    identifiers = "".join(f'<p:sldId r:id="s{number}"/>' for number in numbers)
    parts["ppt/presentation.xml"] = f"<p:presentation {P} {R}><p:sldIdLst>{identifiers}</p:sldIdLst></p:presentation>"
    # Files in another order than the slides: only the list of slides counts.
    targets = {f"s{number}": f"slide:slides/slide{len(slides) + 1 - number}.xml" for number in numbers}
    parts["ppt/_rels/presentation.xml.rels"] = relations(**targets)
    for number, slide in zip(numbers, slides, strict=True):
        tree = f"<p:cSld><p:spTree>{slide}</p:spTree></p:cSld>"
        parts[f"ppt/slides/slide{len(slides) + 1 - number}.xml"] = f"<p:sld {P} {A} {R}>{tree}</p:sld>"
    return zipped({**parts, **(more or {})})


def shape(*lines: str, role: str | None = None, top: int = 0, left: int = 0) -> str:
    """A shape of a slide; a line that begins with `<` is the paragraph's own XML."""
    holder = "" if role is None else f'<p:nvSpPr><p:nvPr><p:ph type="{role}"/></p:nvPr></p:nvSpPr>'
    place = f'<p:spPr><a:xfrm><a:off x="{left}" y="{top}"/></a:xfrm></p:spPr>'
    texts = "".join(f"<a:p>{line if line.startswith('<') else f'<a:r><a:t>{line}</a:t></a:r>'}</a:p>" for line in lines)
    return f"<p:sp>{holder}{place}<p:txBody>{texts}</p:txBody></p:sp>"


def xlsx(sheets: Mapping[str, str], more: Parts | None = None) -> bytes:
    """A workbook; each sheet is the XML inside its `worksheet`."""
    parts: dict[str, str | bytes] = {"[Content_Types].xml": types("spreadsheetml.sheet.main")}
    listed, targets = "", {"styles": "styles:styles.xml", "strings": "sharedStrings:sharedStrings.xml"}
    for number, (name, xml) in enumerate(sheets.items(), start=1):
        listed += f'<sheet name="{name}" sheetId="{number}" r:id="s{number}"/>'
        targets[f"s{number}"] = f"worksheet:worksheets/sheet{number}.xml"
        parts[f"xl/worksheets/sheet{number}.xml"] = f"<worksheet {S} {R}>{xml}</worksheet>"
    parts["xl/workbook.xml"] = f"<workbook {S} {R}><sheets>{listed}</sheets></workbook>"
    parts["xl/_rels/workbook.xml.rels"] = relations(**targets)
    return zipped({**parts, **(more or {})})


def rows(*lines: list[str | float | None], first: int = 1, column: str = "A") -> str:
    """The rows of a sheet with inline strings and numbers; None leaves a cell out."""
    xml = ""
    for number, line in enumerate(lines, start=first):
        cells = ""
        for offset, value in enumerate(line):
            place = f"{chr(ord(column) + offset)}{number}"
            if isinstance(value, str):
                cells += f'<c r="{place}" t="inlineStr"><is><t>{value}</t></is></c>'
            elif value is not None:
                cells += f'<c r="{place}"><v>{value}</v></c>'
        xml += f'<row r="{number}">{cells}</row>'
    return xml


def odf(kind: str, body: str, more: Parts | None = None, styles: str = "") -> bytes:
    names = ("office", "text", "table", "draw", "style", "presentation", "meta", "manifest", "svg")
    spaces = " ".join(f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in names)
    spaces += ' xmlns:dc="http://purl.org/dc/elements/1.1/"'
    content = (
        f"<office:document-content {spaces}><office:automatic-styles>{styles}</office:automatic-styles>"
        f"<office:body><office:{kind}>{body}</office:{kind}></office:body></office:document-content>"
    )
    media_type = f"application/vnd.oasis.opendocument.{kind}"
    return zipped({"mimetype": media_type, "content.xml": content, **(more or {})})
