"""How many accelerators an MLPerf run had, from what its log and its path say; else None."""

from __future__ import annotations

import re
from math import prod
from typing import NamedTuple


class Count(NamedTuple):
    """Accelerators of one run and the evidence; `number` is None where nothing tells."""

    number: int | None
    evidence: str


_AFRESH = r"(?<![A-Za-z0-9])"  # an underscore begins a word here, unlike at \b
_NUMBER = r"(\d{1,6})(?!\d)"
_CHIP = r"(?:GB|A|B|H|L|V|MI)\d+"
# Nodes (times accelerators per node), as submitters write them, and what else to multiply by.
# A number before a chip's name alone (1xMI325X, 16xNVIDIA GB200, 8xMI300X) is not here: it counts
# nodes in some logs and chips in others.
_SHAPES: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(rf"{_AFRESH}{_NUMBER}x[A-Za-z][\w.-]*?x{_NUMBER}{_CHIP}"), 1),
    (re.compile(rf"{_AFRESH}{_NUMBER}xBM\.GPU\.[A-Z0-9]+\.{_NUMBER}"), 1),
    (re.compile(rf"{_AFRESH}{_NUMBER}x{_CHIP}_n{_NUMBER}"), 1),
    # Eight accelerators each: NVIDIA's data sheets, Azure's list of sizes.
    (re.compile(rf"{_AFRESH}{_NUMBER}x(?:NVIDIA )?DGX (?:A100|H100|H200|B200)"), 8),
    (re.compile(rf"{_AFRESH}{_NUMBER}xND_(?:H100|H200)_v5"), 8),
)
_NAMED = re.compile(rf"{_AFRESH}ngpus?_?{_NUMBER}")
_PROCESSORS = re.compile(rf"{_AFRESH}(?:X86|Xeon|SPR|CPU)(?![A-Za-z0-9])", re.IGNORECASE)


def count_accelerators(
    *, platform: str, path: str, ranks_started: int, world_sizes: set[int]
) -> Count:
    """The accelerators of a run; the first that applies.

    A system of processors has none to count; `ngpu64` in the path; the ranks that logged
    init_start, where several did; the world size that the launcher printed; nodes times
    accelerators per node in the platform or the path.

    >>> count_accelerators(platform="16xNVIDIA GB200", path="tyche_ngpu64_ngc25.03/dlrm/result_0",
    ...                    ranks_started=1, world_sizes=set())
    Count(number=64, evidence="'ngpu64' in the path")
    """
    if found := _PROCESSORS.search(platform) or _PROCESSORS.search(path):
        return Count(None, f"'{found[0]}': processors, no accelerators")
    if found := _NAMED.search(path):
        return Count(int(found[1]), f"'{found[0]}' in the path")
    if ranks_started > 1:
        return Count(ranks_started, f"{ranks_started} ranks logged init_start")
    if len(world_sizes) == 1:
        (size,) = world_sizes
        return Count(size, f"world size {size} in the launcher's lines")
    for text, where in ((platform, "submission_platform"), (path, "the path")):
        for shape, each in _SHAPES:
            if found := shape.search(text):
                return Count(each * prod(map(int, found.groups())), f"'{found[0]}' in {where}")
    return Count(None, f"neither '{platform}' nor the path nor the ranks tell how many")
