"""A run: what is tracked is kept, mapped or written, and recorded."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..backends import compiler_told
from ..devices import name_of
from ..errors import python_names
from ..io import sidecar
from ..io.writer import all_or_none
from ..io.writer_thread import WriterThread
from ..option import part_of
from ..space.batch import Batch
from ..tracking.registry import METHODS
from . import bids
from .header import header_fields
from .outputs import report_of
from .products import record_path
from .record import record, stop_reasons, tractogram
from .result import TrackResult
from .tracking import Tracking, threads_explained


class Run(Tracking):
    """A run that is ready to track: what becomes of its streamlines."""

    def collect(self) -> TrackResult:
        """Track all seeds and keep the streamlines in memory; write the products, if there are some, and the record."""
        with closing(self.contents()) as batches:
            kept = tuple(batches)
        if self.products.paths:
            return self.recorded_products(kept)
        result = self.result(None, kept)
        self.report(result, force=self.parameters.force)
        return result

    def contents(self) -> Generator[Batch, None, None]:
        """Track all seeds, and make of the streamlines what a tractogram would hold."""
        with closing(self.batches()) as batches:
            for batch in batches:
                yield self.content.of(batch)
        self.log.tell([], self.content.doubts)

    def make(self) -> TrackResult:
        """Track all seeds, and write the products and the records; keep no streamline."""
        with closing(self.batches()) as batches:
            for _ in batches:
                pass
        return self.recorded_products(())

    def recorded_products(self, kept: tuple[Batch, ...]) -> TrackResult:
        """Write the products and the records beside the streamlines in memory; return the result.

        If that fails, no file stays that lacks the others.
        """
        self.weigh()
        beside, force = record_path(None, self.products.paths), self.parameters.force
        with all_or_none([path for path in (*self.products.files, beside) if path is not None]):
            self.write_products()
            result = self.result(None, kept)
            told = self.write_records(result, force=force)
        self.report(result, force=force, told=told)
        return result

    def weigh(self) -> None:
        """Weigh the streamlines if that is asked for, and begin to write."""
        if self.products.weighs:
            self.log.begin("weigh")
            self.products.per_streamline()
        self.log.begin("write")

    def write_products(self, *, force: bool | None = None) -> None:
        """Write the products that are asked for."""
        self.products.write(force=self.parameters.force if force is None else force)
        self.log.tell([], dict.fromkeys([*self.content.doubts, *self.products.doubts]))

    def save(self, output: Path) -> TrackResult:
        """Track all seeds, and write the streamlines and the records."""
        force = self.parameters.force
        layout = {**self.content.layout(self.step_mm), "content": self.content.of, "fields": self.header}
        with (
            threads_explained(self.parameters),
            WriterThread(output, self.plan.space, force=force, **layout) as writer,
        ):
            with closing(self.batches()) as batches:
                for batch in batches:
                    writer.put(batch)
            self.weigh()
            writer.finish()
            self.write_products()
            self.log.begin("place")
        return self.recorded(self.result(output, ()))

    def header(self) -> dict[str, object]:
        """Return what the header of a .tck says of the run, once all seeds are tracked."""
        counted = {"streamlines": self.counts.streamlines, "dropped": self.dropped}
        return header_fields(self.record(counted), self.plan.space)

    def recorded(self, result: TrackResult, *, force: bool | None = None) -> TrackResult:
        """Write the records of a result, and the page about it; return it."""
        force = self.parameters.force if force is None else force
        self.report(result, force=force, told=self.write_records(result, force=force))
        return result

    def write_records(self, result: TrackResult, *, force: bool) -> dict[str, Any]:
        """Write the records of a result; return the one that lies beside its first file."""
        told = result.record
        if result.path is not None:
            told = told | {"tractogram": tractogram(result.path)}
        told = told | self.products.told
        beside = record_path(result.path, self.products.paths)
        assert beside is not None
        sidecar.write_record(beside, told, force=force)
        if self.parameters.json_stats is not None:
            sidecar.write_json(self.parameters.json_stats, result.as_dict(), force=force)
        return told

    def report(self, result: TrackResult, *, force: bool, told: Mapping[str, Any] | None = None) -> None:
        """Write the page about a result, if one is asked for; ``told`` is its record as it was written."""
        if self.gathered is None or (page := report_of(self.parameters)) is None:
            return
        from ..report.page import Told
        from .reporting import report

        self.log.begin("report")
        facts = Told(
            result.record if told is None else told, None if result.path is None else str(result.path),
            self.counts.histogram, result.notes, result.products,
        )
        report(
            page, facts, self.gathered, self.plan.background, self.engine, self.plan.prepared,
            force=force,
        )

    def result(self, path: Path | None, batches: tuple[Batch, ...]) -> TrackResult:
        """Sum up the run."""
        counted = self.counts.summary(self.step_mm)
        made = TrackResult(
            arch=self.devices[0].arch,
            device=name_of(self.devices),
            seeds=self.done[0],
            n_streamlines=counted.pop("streamlines"),
            **counted,
            stop_reasons=stop_reasons(self.stop_reasons),
            dropped=self.dropped,
            seconds={"kernels": round(self.kernel_seconds, 4), **self.log.durations()},
            path=path,
            parameters=self.parameters,
            notes=_in_python(self.log.notes),
            warnings=_in_python(self.log.warnings),
            space=self.plan.space,
            batches=batches,
            sample=Batch.concatenate(self.sample),
            products=self.products.values,
            record={},
        )
        return replace(made, record=self.record(made.as_dict()))

    def record(self, stats: Mapping[str, Any]) -> dict[str, Any]:
        """Gather what is written beside the tractogram."""
        paths = {**self.parameters.inputs(), **self.series}
        inputs = {name: {"path": str(paths[name]), "sha256": digest} for name, digest in self.plan.hashes.items()}
        devices = [device.as_dict() for device in self.devices]
        told: dict[str, Any] = {"frames": self.plan.frames, "chosen": self.plan.chosen, "warnings": self.log.warnings}
        told |= {"devices": devices} if len(devices) > 1 else {}
        told |= compiler_told(self.devices[0]) | self.content.details
        if self.parameters.bids_out is not None:
            told |= bids.metadata(self.parameters, self.series["dwi"], self.plan.space, self.step_mm)
        if self.parameters.part is not None:
            seeds, (number, parts) = self.seed_range, part_of(self.parameters.part)
            told["part"] = {"number": number, "of": parts, "first_seed": seeds.start, "seeds": len(seeds)}
            told["part"]["downsample"] = self.parameters.parts  # which a part has no need of, since it has all points
        made = record(self.parameters, self.step_mm, inputs, devices[0], stats) | told
        followed = METHODS[self.parameters.dg].low_order
        made["parameters"] |= {name: value for name, value in self.plan.chosen.items() if name in followed}
        return made


def _in_python(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(python_names, texts))
