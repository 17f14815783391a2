"""How a published component key looks on a page, also one that this registry does not have."""

from __future__ import annotations

from dataclasses import replace

from pipelines.taxonomy import UNATTRIBUTED, Component, Taxonomy


def look(key: str, taxonomy: Taxonomy) -> Component:
    """The component of `key`; one published under another registry takes its ancestor's colour.

    >>> from pipelines.taxonomy import DEFAULT
    >>> look("compile.kernel_search", DEFAULT).label
    'compile.kernel_search'
    """
    if key in taxonomy.components:
        return taxonomy[key]
    ancestor = key.rpartition(".")[0]
    while ancestor and ancestor not in taxonomy.components:
        ancestor = ancestor.rpartition(".")[0]
    return replace(taxonomy[ancestor or UNATTRIBUTED], key=key, label=key, definition="")
