from __future__ import annotations

import datetime
import time
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_assets.documents.parsers.office.number_formats import NumberFormat, number_format
from rag_assets.documents.registry import parse
from tests.support.office_files import S, xlsx
from tests.support.ole_files import xls


def shown(code: str, value: float) -> str:
    return NumberFormat(code).shown(value)


@pytest.mark.parametrize(
    ("code", "value", "text"),
    [
        ("00000", 7030, "07030"),
        ("0", 1234567890123450, "1234567890123450"),
        ("General", 1234567890123450, "1234567890123450"),
        ("Standard", 1.5, "1.5"),
        ('General" units"', 5, "5 units"),
        ("#,##0.00", 999999.999, "1,000,000.00"),
        ("#,##0", -1234.5, "-1,235"),
        ("0,000", 5, "0,005"),
        ("0.0#", 1.5, "1.5"),
        ("0.0##", 1.205, "1.205"),
        ("#", 0, ""),
        (".00", 12.5, "12.50"),
        ("0.00", 1.005, "1.01"),
        ("000\\-00\\-0000", 12345678, "012-34-5678"),
        ("(###) ###\\-####", 5551234567, "(555) 123-4567"),
        ('0,,"M"', 12345678, "12M"),
        ("0.00%", -0.1234, "-12.34%"),
        ("0.00E+00", 12345, "1.23E+04"),
        ("0.00E-00", 0.00012345, "1.23E-04"),
        ("##0.0E+0", 999960, "1.0E+6"),
        ("# ?/?", 1.25, "1 1/4"),
        ("# ??/??", 0.3333, "1/3"),
        ("# ??/16", 1.3, "1 5/16"),
        ("?/?", 1.25, "5/4"),
        ("# ?/?", 2.999, "3"),
        ("# ?/?", 0, "0"),
    ],
)
def test_a_number_stands_in_the_places_that_its_format_gives_it(code: str, value: float, text: str) -> None:
    assert shown(code, value) == text


@pytest.mark.parametrize(
    ("code", "value", "text"),
    [
        ('0;(0);"none";@', 0, "none"),
        ("0;(0)", -5, "(5)"),
        ("0;(0)", 0, "0"),
        ("0;@", -5, "-5"),
        ('[<100]"low";[>200]"high";"mid"', 150, "mid"),
        ('[>=1000]0.0,"k";0', 1500, "1.5k"),
        ('[>=1000]0.0,"k";0', -5, "-5"),
        ("[>=0]0;(0)", -5, "(5)"),
        ("[Red]#,##0", 1234, "1,234"),
        ("[$€-407] #,##0.00", 12.5, "€ 12.50"),
        ('#,##0.00\\ "kr."', 7, "7.00 kr."),
        ('_(* #,##0.00_);_(* (#,##0.00);_(* "-"??_);_(@_)', -1234.5, "(1,234.50)"),
        ('_(* #,##0.00_);_(* (#,##0.00);_(* "-"??_);_(@_)', 0, "-"),
        ("0;-0;", 0, ""),
        (";;;", 7, "7"),
    ],
)
def test_sections_conditions_currencies_and_colours_are_those_of_the_program(
    code: str, value: float, text: str
) -> None:
    assert shown(code, value) == text


@pytest.mark.parametrize(
    ("code", "value", "text"),
    [
        ("[h]:mm", 36.5, "876:00"),
        ("[h]:mm", -0.5, "-12:00"),
        ("[h]:mm:ss.00", 1.5, "36:00:00.00"),
        ("[mm]:ss", 0.5, "720:00"),
        ("[ss]", 1, "86400"),
        ("mm:ss.0", 0.012345, "17:46.6"),
        ("h:mm AM/PM", 0, "12:00 AM"),
        ("h:mm AM/PM", 45292.75, "6:00 PM"),
        ("dd/mm/yyyy hh:mm", 45292.75, "01/01/2024 18:00"),
        ("dddd, mmmm d, yyyy", 45292, "Monday, January 1, 2024"),
        ("[$-409]d-mmm-yy;@", 45292, "1-Jan-24"),
        ("mmm yyyy", 45292, "Jan 2024"),
        ('yyyy"年"m"月"d"日"', 45292, "2024年1月1日"),
        ("yyyy\\-mm\\-dd\\Thh:mm:ss", 45292.999999999, "2024-01-02T00:00:00"),
        ("TT.MM.JJJJ", 45292, "2024-01-01"),
        ("yyyy", -1, "-1"),
    ],
)
def test_dates_times_and_durations_are_those_of_the_program(code: str, value: float, text: str) -> None:
    assert shown(code, value) == text


def test_a_date_whose_order_hangs_on_the_country_is_shown_in_iso_8601() -> None:
    local = number_format(14)
    assert local.shown(45292) == "2024-01-01"
    assert local.shown(45292.75) == "2024-01-01 18:00:00"
    assert local.shown(1) == "1900-01-01"
    assert local.shown(1, since_1904=True) == "1904-01-02"
    assert local.shown(0.5) == "12:00:00"
    assert local.shown(-1) == "-1"


def test_text_has_what_its_format_writes_around_it_and_none_is_hidden() -> None:
    assert NumberFormat('0;0;0;"Mr "@').shown_text("Day") == "Mr Day"
    assert NumberFormat(";;;").shown_text("Day") == "Day"
    assert NumberFormat("00000").shown_text("Day") == "Day"


@given(st.dates(datetime.date(1900, 3, 1), datetime.date(9999, 12, 31)))
def test_a_date_is_the_day_that_it_counts(day: datetime.date) -> None:
    days = float((day - datetime.date(1899, 12, 30)).days)
    assert number_format(14).shown(days) == day.isoformat()
    assert shown("yyyy-mm-dd", days) == day.isoformat()


@given(st.floats(-1e14, 1e14), st.integers(0, 6))
def test_the_short_way_and_the_whole_way_round_alike(value: float, decimals: int) -> None:
    zeros = "." + "0" * decimals if decimals else ""
    short = shown(f"#,##0{zeros}", value)
    # With a literal among the placeholders, each of them is filled by itself.
    assert shown(f'#,##0""{zeros}', value) == short
    assert abs(Decimal(short.replace(",", "")) - Decimal(f"{value:.15g}")) <= Decimal(10) ** -decimals / 2


@given(st.text(alphabet='0#?.,;%/@"\\_*[]<>=-+eEyYmdhsgabGgeneral $€()  ', max_size=40), st.floats(allow_nan=False))
def test_no_format_code_stops_a_file(code: str, value: float) -> None:
    form = NumberFormat(code)
    assert isinstance(form.shown_text("x"), str)
    if value in (float("inf"), float("-inf")):
        with pytest.raises(ValueError, match="finite"):
            form.shown(value)
    else:
        assert isinstance(form.shown(value), str)


def test_a_workbook_shows_its_numbers_as_the_program_does() -> None:
    codes = {"170": "00000", "171": "[h]:mm", "172": "0", "173": "0;0;0;&quot;No. &quot;@"}
    listed = "".join(f'<numFmt numFmtId="{key}" formatCode="{code}"/>' for key, code in codes.items())
    styles = f"<styleSheet {S}><numFmts>{listed}</numFmts><cellXfs>"
    styles += "".join(f'<xf numFmtId="{key}"/>' for key in ("0", *codes)) + "</cellXfs></styleSheet>"
    cells = (
        '<c r="A1" s="1"><v>7030</v></c><c r="B1" s="2"><v>36.5</v></c><c r="C1" s="3"><v>1234567890123450</v></c>'
        '<c r="D1" s="4" t="inlineStr"><is><t>9</t></is></c><c r="E1" s="9"><v>1.5</v></c>'
    )
    data = xlsx({"A": f'<sheetData><row r="1">{cells}</row></sheetData>'}, {"xl/styles.xml": styles})
    (record,) = parse(data, "a.xlsx")
    assert record.document is not None
    assert record.document.text == "A\n\n07030 | 876:00 | 1234567890123450 | No. 9 | 1.5"


def test_an_old_workbook_shows_its_numbers_as_the_program_does() -> None:
    data = xls("A", {(0, 0): "post code", (0, 1): "time", (1, 0): 7030.0, (1, 1): 36.5}, ["00000", "[h]:mm"])
    (record,) = parse(data, "a.xls")
    assert record.document is not None
    assert record.document.text == "A\n\npost code | time\n07030 | 876:00"


@pytest.mark.slow
def test_a_million_cells_are_shown_in_far_less_time_than_a_file_may_take() -> None:
    form, start = NumberFormat('_(* #,##0.00_);_(* (#,##0.00);_(* "-"??_);_(@_)'), time.process_time()
    for number in range(1_000_000):
        form.shown(number - 0.5)
    assert time.process_time() - start < 30
