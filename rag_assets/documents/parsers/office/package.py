"""The parts of an office file (OOXML, ODF, EPUB): a zip with XML inside."""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote

from rag_assets.documents.parsers.safe_xml import Element, attribute, local, parse_xml
from rag_assets.documents.parsers.zips import open_zip, read_entry
from rag_assets.errors import ParseError

MAX_PART = 64 * 1024 * 1024  # bytes: a tree of it takes several times as much memory
MAX_STREAMED = 256 * 1024 * 1024  # bytes of a part that is read without building a tree
MAX_PACKAGE = 512 * 1024 * 1024  # bytes of all parts that are read

# The strict variant of OOXML differs from the usual one in its namespaces only.
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(\w+)/(\w+)")


@dataclass(frozen=True)
class Relation:
    """A link from one part to another: the last word of its type, and the target's path."""

    kind: str
    target: str


class Package:
    """The parts of an office file by path.

    Raises:
        ParseError: a damaged zip; and from every reading method a damaged, encrypted or oversized part.
    """

    def __init__(self, data: bytes) -> None:
        self._archive = open_zip(data)
        self._left = MAX_PACKAGE

    @cached_property
    def names(self) -> dict[str, str]:
        """The path of each part, by its path in lower case: writers disagree about case."""
        return {name.replace("\\", "/").lower().lstrip("/"): name for name in self._archive.namelist()}

    def read(self, path: str, limit: int = MAX_PART) -> bytes | None:
        """Return a part's bytes, or None where there is no such part."""
        name = self.names.get(path.lstrip("/").lower())
        if name is None:
            return None
        try:
            data = read_entry(self._archive, self._archive.getinfo(name), min(limit, self._left))
        except ParseError as error:
            raise ParseError(f"the part {name} cannot be read: {error}") from error
        self._left -= len(data)
        return data

    def xml(self, path: str) -> Element | None:
        """Return the root of an XML part, with the namespaces of the transitional variant, or None."""
        data = self.read(path)
        return None if data is None else parse_xml(transitional(data), f"the part {path}")

    def relations(self, path: str) -> dict[str, Relation]:
        """Return the relations of a part (`""`: of the package) by id; those that lead outside are left out."""
        folder, name = posixpath.split(path)
        root = self.xml(posixpath.join(folder, "_rels", f"{name}.rels"))
        found = {}
        for element in root if root is not None else ():
            if local(element) == "Relationship" and element.get("TargetMode") != "External":
                target = posixpath.join("/" + folder, unquote(element.get("Target") or ""))
                kind = (element.get("Type") or "").rpartition("/")[2]
                found[attribute(element, "Id")] = Relation(kind, posixpath.normpath(target).lstrip("/"))
        return found

    def related(self, path: str, kind: str) -> list[str]:
        """Return the targets of a part's relations of one kind."""
        return [relation.target for relation in self.relations(path).values() if relation.kind == kind]

    def main_part(self, usual: str) -> str:
        """Return the path of the main part.

        Raises:
            ParseError: there is none.
        """
        for path in [*self.related("", "officeDocument"), usual]:
            if path.lower() in self.names:
                return path
        raise ParseError(f"the file has no main part such as {usual}: it is damaged or of another kind")


def transitional(data: bytes) -> bytes:
    """Return an OOXML part of the strict variant with the namespaces of the transitional one."""
    if b"purl.oclc.org" not in data[:4096]:
        return data
    return _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/\2", data)
