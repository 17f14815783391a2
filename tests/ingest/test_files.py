import os

import pytest

from pipelines.errors import InputError
from pipelines.ingest.files import raw_files


def names(*roots):
    return [file.name for file in raw_files(roots)]


def test_a_folder_is_walked_in_order_of_names_and_hidden_files_are_skipped(tmp_path):
    for name in ("b/2.jsonl", "b/.part", "a.jsonl", ".git/config", "b/10.jsonl.gz"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert names(tmp_path) == ["a.jsonl", "b/10.jsonl.gz", "b/2.jsonl"]


def test_a_file_is_named_by_its_own_name_also_where_hidden(tmp_path):
    (tmp_path / ".log").write_text("xyz")
    (file,) = raw_files([tmp_path / ".log"])
    assert (file.name, file.size_bytes, file.path) == (".log", 3, str(tmp_path / ".log"))
    assert file.modified_at.timestamp() == pytest.approx(
        (tmp_path / ".log").stat().st_mtime, abs=1e-5
    )


def test_a_file_reached_twice_counts_once(tmp_path):
    (tmp_path / "a").write_text("x")
    assert names(tmp_path, tmp_path / "a") == ["a"]


def test_two_files_of_one_name_are_an_error_with_the_fix(tmp_path):
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "result_0.txt").write_text(folder)
    with pytest.raises(InputError, match=r"two files are named 'result_0.txt'.*holds both"):
        names(tmp_path / "x", tmp_path / "y")


def test_a_folder_that_cannot_be_listed_is_an_error_and_not_left_out(tmp_path, monkeypatch):
    (tmp_path / "closed").mkdir()
    real = os.scandir

    def scandir(path):
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(InputError, match=r"cannot look into '.*closed': Permission denied"):
        names(tmp_path)


def test_a_root_with_a_name_that_no_file_can_have_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"cannot look into '.*': File name too long"):
        names(tmp_path / (300 * "x"))


def test_a_time_of_change_that_no_clock_can_have_said_is_the_end_of_time(tmp_path):
    (tmp_path / "a").write_text("x")
    os.utime(tmp_path / "a", (0, 400_000_000_000))
    (file,) = raw_files([tmp_path])
    assert file.modified_at.year in (2446, 9999)  # some file systems cannot store it


def test_a_missing_root_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"no file or folder at '.*nowhere'"):
        names(tmp_path / "nowhere")


def test_what_is_no_file_is_skipped_and_a_link_is_its_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "broken").symlink_to(tmp_path / "gone")
    (tmp_path / "real").write_text("x")
    (tmp_path / "today").symlink_to(tmp_path / "real")
    assert names(tmp_path) == ["real"]


def test_a_name_that_is_no_utf_8_is_an_error(tmp_path):
    (tmp_path / "caf\udce9").write_text("x")
    with pytest.raises(InputError, match="is not UTF-8: rename it"):
        names(tmp_path)
