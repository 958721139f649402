"""Running headers and footers, which stand on every page and are read once."""

from __future__ import annotations

import re

_PAGE_NUMBER = re.compile(r"\W*(page|seite|página|pagina|p\.)?\W*\d*\W*(of|von|de|di|sur|/)?\W*\d*\W*", re.IGNORECASE)


def is_page_number(text: str) -> bool:
    """Tell a header or footer that only counts pages, and says nothing."""
    return _PAGE_NUMBER.fullmatch(text) is not None
