"""A verdict as JUnit XML, which every CI system can show."""

from __future__ import annotations

import re
from xml.etree import ElementTree  # nosec B405: writes XML, and reads none

from evals.gate import Criterion, Verdict

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(verdict: Verdict, suite: str = "promotion_gate") -> str:
    """One test case a criterion: a failure where it refuses, an error where it could not be judged."""
    root = ElementTree.Element("testsuites")
    counts = {
        "tests": len(verdict.criteria),
        "failures": sum(criterion.passed is False for criterion in verdict.criteria),
        "errors": sum(criterion.passed is None for criterion in verdict.criteria),
        "skipped": 0,
    }
    attributes = {name: str(count) for name, count in counts.items()}
    element = ElementTree.SubElement(root, "testsuite", {"name": _legal(suite), "time": "0", **attributes})
    for criterion in verdict.criteria:
        _add_case(element, suite, criterion)
    if verdict.problems:
        ElementTree.SubElement(element, "system-out").text = _legal("\n".join(verdict.problems))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_case(suite: ElementTree.Element, name: str, criterion: Criterion) -> None:
    case = ElementTree.SubElement(suite, "testcase", {"classname": _legal(name), "name": criterion.name, "time": "0"})
    text = f"value {criterion.value}, limit {criterion.limit}: {criterion.reason}"
    if criterion.passed is True:
        ElementTree.SubElement(case, "system-out").text = _legal(text)
        return
    # Readers of JUnit files show a skipped case as green, and a criterion that nobody judged is not.
    outcome = "failure" if criterion.passed is False else "error"
    details = {"message": _legal(criterion.reason), "type": criterion.name}
    ElementTree.SubElement(case, outcome, details).text = _legal(text)


def _legal(text: str) -> str:
    """Without the characters that XML cannot hold in any spelling."""
    return _NOT_XML.sub("\ufffd", text)
