"""Every notebook's code cells run, in order, over a published warehouse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.dashboards.fleet import write_warehouse

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_cells_run(notebook, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("ETT_WAREHOUSE", str(write_warehouse(tmp_path / "warehouse", jobs=5)))
    cells = json.loads(notebook.read_text())["cells"]
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), notebook.name, "exec"), names)
    assert capsys.readouterr().out.startswith("ETT ")
    assert names["period"].jobs["shown_lost_gpu_ms"].iloc[0] > 0
