"""What the assets need from outside: the settings of a fleet, and the engine, opened when used."""

import atexit
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

from pipelines import clock, walk
from pipelines.engine import DEFAULT_ENGINE, Engine, open_engine
from pipelines.ingest.files import RawFile, raw_files
from pipelines.publishing import Run
from pipelines.site import Site, load_site
from pipelines.taxonomy import Taxonomy
from pipelines.warehouse import Warehouse

_OPEN: dict[str, Engine] = {}


def engine_named(name: str) -> Engine:
    """The engine of this process, started when it is first asked for and stopped at exit."""
    if name not in _OPEN:
        _OPEN[name] = open_engine(name)
        atexit.register(_OPEN[name].stop)
    return _OPEN[name]


def use_engine(engine: Engine) -> None:
    """Have runs of this process use an engine that is open already (its owner stops it)."""
    _OPEN[engine.name] = engine


class Fleet(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Where a fleet's logs and tables are, and how they are accounted.

    Nothing is opened before an asset asks for it. Every field can be set at the launch of a run.
    """

    raw: list[str] = Field(description="Log files and folders; folders are walked.")
    warehouse: str = Field(description="Root of the tables: a folder or an object store's URL.")
    site: str = Field(description="Folder that the pages are written to.")
    engine: str = Field(default=DEFAULT_ENGINE, description="sail, local[*], spark://…, sc://….")
    as_of: str | None = Field(
        default=None,
        description="The moment of the computation, epoch ms or RFC 3339; not given: now.",
    )
    dead_after_ms: int = Field(
        default=walk.Settings.dead_after_ms,
        description="Silence after which a job that did not end is presumed dead.",
    )
    registry: str | None = Field(
        default=None, description="YAML file of the site: its taxonomy and sources."
    )

    def raw_files(self) -> list[RawFile]:
        """The log files that there are; InputError for a root that does not exist."""
        return raw_files(self.raw)

    def open_warehouse(self) -> Warehouse:
        """The tables, with the words of this site."""
        return Warehouse(self.warehouse, taxonomy=self.taxonomy())

    def site_settings(self) -> Site:
        """What the site says of itself; RegistryError where its file is not valid."""
        return load_site(Path(self.registry)) if self.registry else Site()

    def taxonomy(self) -> Taxonomy:
        """The site's components and owners."""
        return self.site_settings().taxonomy

    def settings(self) -> walk.Settings:
        """What a computation depends on besides the logs; `as_of` is fixed now."""
        ours = self.site_settings()
        return walk.Settings(
            as_of_ms=clock.moment_ms(self.as_of) if self.as_of else clock.now_ms(),
            dead_after_ms=self.dead_after_ms,
            taxonomy=ours.taxonomy,
            sources=ours.sources,
        )

    def run(self, run_id: str) -> Run:
        """What a run works with: the engine starts now."""
        settings = self.settings()
        warehouse = Warehouse(self.warehouse, taxonomy=settings.taxonomy)
        return Run(run_id, engine_named(self.engine), warehouse, settings)


def fleet_from(environment: Mapping[str, str] = os.environ) -> Fleet:
    """The fleet that ETT_… variables describe; docs/dagster.md lists them."""
    fields: dict[str, Any] = {"warehouse": "warehouse", "site": "site"}
    fields |= {
        name: environment[f"ETT_{name.upper()}"]
        for name in ("warehouse", "site", "engine", "as_of", "dead_after_ms", "registry")
        if environment.get(f"ETT_{name.upper()}")
    }
    return Fleet(raw=environment.get("ETT_RAW", "raw").split(os.pathsep), **fields)
