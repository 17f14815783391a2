"""The session: which engine runs the transforms, and its settings."""

from __future__ import annotations

import os
import re
import shutil
import sys
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from pipelines.errors import EngineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_ENGINE = "sail"

_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
}
_SPARK_SETTINGS = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.sources.partitionOverwriteMode": "static",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
# A cluster's own settings stand; these are for one machine.
_LOCAL_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.ui.explainMode": "simple",
    "spark.driver.memory": "6g",
    "spark.driver.extraJavaOptions": "-XX:MetaspaceSize=256m",
    # Spark takes pages of 64 MB here, zeroed for every sort of a hundred rows.
    "spark.buffer.pageSize": "4m",
    "spark.broadcast.blockSize": "512k",
}
# Where frames have thousands of rows, compiling a plan costs far more than running it: no code is
# generated, and the JVM compiles quickly rather than well. A third of the time, the same results.
_SMALL_SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.buffer.pageSize": "1m",
    "spark.broadcast.blockSize": "128k",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"
    " -XX:+UseSerialGC -Xms1g -Xmn600m -XX:MetaspaceSize=256m",
}


@dataclass
class Engine:
    """A running session and what it is. Keep it for as long as its frames are used.

    Sail lives inside the process: losing the reference to its server hangs the next query,
    so the server is held here.
    """

    name: str
    session: SparkSession
    server: Any = None

    @property
    def version(self) -> str:
        """The engine and its version, as published with every table."""
        package = "pysail" if self.name == "sail" else "pyspark"
        return f"{package} {version(package)}"

    def stop(self) -> None:
        """End the session, and the server where it is ours."""
        self.session.stop()
        if self.server is not None:
            self.server.stop()


def open_engine(name: str = DEFAULT_ENGINE, *, is_small: bool = False) -> Engine:
    """Start the engine called `name`: sail, local[*], spark://…, yarn, k8s://… or sc://….

    `is_small` says that no frame will have many rows: a local Spark then starts faster and plans
    less; other engines need no telling. Raises EngineError with what to install where it cannot
    start.
    """
    if name == "sail":
        return _open_sail()
    if name.startswith("sc://"):
        return Engine(name, _configured(_remote(name)))
    if name.startswith(("local", "spark://", "yarn", "k8s://")):
        return _open_spark(name, is_small=is_small)
    raise EngineError(
        f"unknown engine '{name}': use sail (no Java needed), local[*], spark://host:port, "
        "yarn, k8s://… or sc://host:port"
    )


def java_home() -> str | None:
    """Where Java is, or None: JAVA_HOME first, then the PATH."""
    home = os.environ.get("JAVA_HOME")
    if home and os.path.exists(os.path.join(home, "bin", "java")):
        return home
    found = shutil.which("java")
    return os.path.dirname(os.path.dirname(os.path.realpath(found))) if found else None


def _open_sail() -> Engine:
    os.environ.setdefault("RUST_LOG", "error")
    from pysail.spark import SparkConnectServer  # noqa: PLC0415 - optional at run time

    server = SparkConnectServer(port=0)
    server.start()
    host, port = server.listening_address
    return Engine("sail", _configured(_remote(f"sc://{host}:{port}")), server)


def _open_spark(master: str, *, is_small: bool) -> Engine:
    if java_home() is None:
        raise EngineError(
            f"the engine '{master}' needs Java 17 or 21 and none was found: install it "
            "(Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME; "
            "the default engine 'sail' needs no Java"
        )
    from pyspark.sql import SparkSession  # noqa: PLC0415 - starts slowly

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName("ettledger")
    for key, value in _spark_settings(master, is_small=is_small).items():
        builder = builder.config(key, value)
    return Engine(master, builder.getOrCreate())


def _spark_settings(master: str, *, is_small: bool) -> dict[str, str]:
    if not master.startswith("local"):
        return _SPARK_SETTINGS | _SETTINGS
    partitions = {"spark.sql.shuffle.partitions": str(2 * _cores(master))}
    small = _SMALL_SETTINGS if is_small else {}
    return _SPARK_SETTINGS | _LOCAL_SETTINGS | partitions | small | _SETTINGS


def _cores(master: str) -> int:
    """Tasks that a local master runs at a time: local is 1, local[4] is 4, local[*] all cores."""
    said = re.match(r"local\[(\d+)", master)
    if said:
        return int(said[1])
    return 1 if master == "local" else os.cpu_count() or 1


def _remote(url: str) -> SparkSession:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - starts slowly

    return SparkSession.builder.remote(url).create()


def _configured(session: SparkSession) -> SparkSession:
    for key, value in _SETTINGS.items():
        session.conf.set(key, value)
    return session
