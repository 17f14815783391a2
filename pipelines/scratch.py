"""Where a run keeps its intermediate frames: written once, read back, gone at its end."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pyarrow.fs import FileSelector, FileSystem, FileType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger(__name__)


class Scratch:
    """Intermediate frames of one run, each written once and read back; gone after the `with`."""

    def __init__(self, filesystem: FileSystem, path: str, url: str) -> None:
        self._filesystem = filesystem
        self._path = path
        self._url = url
        self._kept: dict[str, DataFrame] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()

    def keep(self, name: str, frame: DataFrame) -> DataFrame:
        """Write the frame, and give back a frame that reads it; a name is kept only once."""
        if name not in self._kept:
            frame.write.mode("error").parquet(f"{self._url}/{name}")
            self._kept[name] = self._reader(name, frame)
            log.debug("kept %s", name)
        return self._kept[name]

    def remove(self) -> None:
        """Delete everything that was kept; frames that read it cannot be used any more."""
        self._kept.clear()
        if self._filesystem.get_file_info(self._path).type != FileType.NotFound:
            self._filesystem.delete_dir(self._path)

    def _reader(self, name: str, frame: DataFrame) -> DataFrame:
        selector = FileSelector(f"{self._path}/{name}", recursive=True, allow_not_found=True)
        written = self._filesystem.get_file_info(selector)
        if any(info.path.endswith(".parquet") for info in written):
            return frame.sparkSession.read.schema(frame.schema).parquet(f"{self._url}/{name}")
        return frame.sparkSession.createDataFrame([], frame.schema)  # Sail: no rows, no file
