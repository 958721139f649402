"""Namespaces of office files, each as the prefix of an lxml tag."""

from __future__ import annotations

_OPENXML = "http://schemas.openxmlformats.org"

W = f"{{{_OPENXML}/wordprocessingml/2006/main}}"
A = f"{{{_OPENXML}/drawingml/2006/main}}"
C = f"{{{_OPENXML}/drawingml/2006/chart}}"
DGM = f"{{{_OPENXML}/drawingml/2006/diagram}}"
M = f"{{{_OPENXML}/officeDocument/2006/math}}"
P = f"{{{_OPENXML}/presentationml/2006/main}}"
R = f"{{{_OPENXML}/officeDocument/2006/relationships}}"
MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
