from __future__ import annotations

from rag_assets.documents.model import Document
from rag_assets.documents.registry import parse
from tests.support.office_files import A, P, R, odf, pptx, relations, shape


def document(data: bytes, name: str = "a.pptx") -> Document:
    (record,) = parse(data, name)
    assert record.document is not None, record.error
    return record.document


def test_slides_are_pages_in_the_order_in_which_they_are_shown() -> None:
    read = document(pptx(shape("One", role="title"), shape("Two", role="title") + shape("Text")))
    assert read.text == "One\n\nTwo\n\nText"
    assert [(block.kind, block.page) for block in read.blocks] == [("heading", 1), ("heading", 2), ("paragraph", 2)]
    assert read.title == "One"


def test_a_slide_without_a_title_does_not_belong_to_the_slide_before_it() -> None:
    read = document(pptx(shape("One", role="ctrTitle"), shape("Alone")))
    assert [block.heading_path for block in read.blocks] == [("One",), ()]


def test_slides_without_text_are_counted() -> None:
    read = document(pptx(shape("One"), "<p:pic/>", shape("12", role="sldNum")))
    assert read.metadata["quality"]["pages"] == 3
    assert read.metadata["quality"]["pages_without_text"] == 2


def test_shapes_are_read_from_top_to_bottom_and_the_title_first() -> None:
    low, high = shape("low", top=5_000_000), shape("high", top=1_000_000)
    right, title = shape("right", top=1_100_000, left=9), shape("Title", role="title", top=6_000_000)
    assert document(pptx(low + right + high + title)).text == "Title\n\nhigh\n\nright\n\nlow"


def test_bullets_of_a_placeholder_are_a_list_and_numbered_ones_are_counted() -> None:
    first, second = (f"<a:pPr><a:buAutoNum/></a:pPr><a:r><a:t>{text}</a:t></a:r>" for text in ("a", "b"))
    inner = '<a:pPr lvl="1"/><a:r><a:t>inner</a:t></a:r>'
    read = document(pptx(shape("dot", inner, first, second, role="body")))
    assert read.text == "- dot\n  - inner\n1. a\n2. b"
    assert [block.kind for block in read.blocks] == ["list"]


def test_tables_groups_notes_and_comments_are_read() -> None:
    cell = "<a:tc><a:txBody><a:p><a:r><a:t>{}</a:t></a:r></a:p></a:txBody></a:tc>"
    lines = "".join(f"<a:tr>{''.join(map(cell.format, row))}</a:tr>" for row in (["H", "I"], ["1", "2"]))
    frame = (
        f"<p:graphicFrame><a:graphic><a:graphicData><a:tbl>{lines}</a:tbl></a:graphicData></a:graphic></p:graphicFrame>"
    )
    group = f"<p:grpSp>{shape('grouped')}</p:grpSp>"
    notes = f"<p:notes {P} {A}><p:cSld><p:spTree>{shape('Say this', role='body')}</p:spTree></p:cSld></p:notes>"
    comments = f'<p:cmLst {P}><p:cm authorId="4"><p:text>Why?</p:text></p:cm></p:cmLst>'
    more = {
        "ppt/slides/_rels/slide1.xml.rels": relations(n="notesSlide:../notes1.xml", c="comments:../comments1.xml"),
        "ppt/notes1.xml": notes,
        "ppt/comments1.xml": comments,
        "ppt/commentAuthors.xml": f'<p:cmAuthorLst {P}><p:cmAuthor id="4" name="Ann"/></p:cmAuthorLst>',
        "ppt/_rels/presentation.xml.rels": relations(
            s1="slide:slides/slide1.xml", a="commentAuthors:commentAuthors.xml"
        ),
    }
    read = document(pptx(frame + group, more=more))
    assert read.text == "H | I\n1 | 2\n\ngrouped\n\nSay this\n\n[Comment by Ann]: Why?"


def test_a_presentation_of_pictures_is_no_text() -> None:
    (record,) = parse(pptx("<p:pic/>", "<p:pic/>"), "a.pptx")
    assert (record.status, record.error) == ("no_text", "no text on any of 2 slides")


def test_a_slide_list_that_points_nowhere_does_not_hide_the_other_slides() -> None:
    more = {"ppt/presentation.xml": f'<p:presentation {P} {R}><p:sldIdLst><p:sldId r:id="s9"/><p:sldId r:id="s1"/>'
            "</p:sldIdLst></p:presentation>"}  # fmt: skip
    assert document(pptx(shape("One"), more=more)).text == "One"


def test_an_opendocument_presentation_has_pages_and_notes_and_leaves_out_its_furniture() -> None:
    slide = (
        "<draw:page><draw:frame><draw:text-box><text:p>Body</text:p></draw:text-box></draw:frame>"
        '<draw:frame presentation:class="title"><draw:text-box><text:p>Title</text:p></draw:text-box></draw:frame>'
        '<draw:frame presentation:class="footer"><draw:text-box><text:p>Foot</text:p></draw:text-box></draw:frame>'
        '<presentation:notes><draw:frame presentation:class="notes"><draw:text-box><text:p>Note</text:p>'
        "</draw:text-box></draw:frame></presentation:notes></draw:page>"
    )
    read = document(odf("presentation", slide + "<draw:page/>"), "a.odp")
    assert read.text == "Title\n\nBody\n\nNote"
    assert {block.page for block in read.blocks} == {1}
    assert (read.metadata["quality"]["pages"], read.metadata["quality"]["pages_without_text"]) == (2, 1)


def test_text_boxes_word_art_tables_and_diagrams_beside_the_notes_are_read_and_furniture_is_not() -> None:
    dgm = 'xmlns:dgm="http://schemas.openxmlformats.org/drawingml/2006/diagram"'
    cell = "<a:tc><a:txBody><a:p><a:r><a:t>{}</a:t></a:r></a:p></a:txBody></a:tc>"
    line = f"<a:tr>{cell.format('Cost')}{cell.format('9')}</a:tr>"
    frame = "<p:graphicFrame><a:graphic><a:graphicData>{}</a:graphicData></a:graphic></p:graphicFrame>"
    shapes = (
        shape("slide", role="sldImg")
        + shape("Company", role="hdr")
        + shape("Say this", role="body")
        + shape("WordArt")
        + frame.format(f"<a:tbl>{line}</a:tbl>")
        + frame.format(f'<dgm:relIds {dgm} r:dm="d"/>')
        + shape("7", role="sldNum")
    )
    point = "<dgm:pt><dgm:t><a:p><a:r><a:t>Step</a:t></a:r></a:p></dgm:t></dgm:pt>"
    more = {
        "ppt/slides/_rels/slide1.xml.rels": relations(n="notesSlide:../notes1.xml"),
        "ppt/notes1.xml": f"<p:notes {P} {A} {R}><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:notes>",
        "ppt/_rels/notes1.xml.rels": relations(d="diagramData:data.xml"),
        "ppt/data.xml": f"<dgm:dataModel {dgm} {A}><dgm:ptLst>{point}</dgm:ptLst></dgm:dataModel>",
    }
    assert document(pptx(shape("Slide"), more=more)).text == "Slide\n\nSay this\n\nWordArt\n\nCost | 9\n\n- Step"
