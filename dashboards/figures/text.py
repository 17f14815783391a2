"""Text from logs inside a figure: shown as it is, never read as markup."""

from __future__ import annotations

import re

# C0 and C1 controls, and the marks that turn the direction of what follows.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    r"""Write characters that cannot be seen, or that turn the text around, as escapes.

    >>> visible("a\u202eb")
    'a\\u202eb'
    """
    return _UNSEEN.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


def plain(text: str, longest: int = 120) -> str:
    """`text` so that Plotly, which reads a little HTML in every label, shows it as it is.

    >>> plain("<a href='x'>b</a>")
    "&lt;a href='x'&gt;b&lt;/a&gt;"
    """
    seen = visible(text)
    cut = seen if len(seen) <= longest else seen[: longest - 1] + "…"
    return cut.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
