"""A run: what is tracked is kept, mapped or written, and recorded."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from ..aliases import Json
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
from .products import record_path
from .record import inputs_of, record, stop_reasons, tractogram
from .result import TrackResult
from .saving import write
from .tracking import Tracking, threads_explained


class Run(Tracking):
    """A run that is ready to track: what becomes of its streamlines."""

    def collect(self) -> TrackResult:
        """Track all seeds and keep the streamlines in memory; write the products, if there are some, and the record."""
        with closing(self.contents()) as batches:
            kept = tuple(batches)
        return self.recorded_products(kept) if self.products.paths else self.reported(self.result(None, kept))

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
        beside = record_path(None, self.products.paths)
        with all_or_none([path for path in (*self.products.files, beside) if path is not None]):
            self.write_products()
            result = self.result(None, kept)
            record = self.write_records(result)
        return self.reported(result, record)

    def weigh(self) -> None:
        """Weigh the streamlines if that is asked for, and begin to write."""
        if self.products.weighs:
            self.log.begin("weigh")
            self.products.per_streamline()
        self.log.begin("write")

    def write_products(self) -> None:
        """Write the products that are asked for."""
        self.products.write(force=self.force)
        self.log.tell([], dict.fromkeys([*self.content.doubts, *self.products.doubts]))

    def save(self, output: Path) -> TrackResult:
        """Track all seeds, and write the streamlines and the records."""

        def batches() -> Generator[Batch, None, None]:
            yield from self.batches()
            self.weigh()

        def written() -> None:
            self.write_products()
            self.log.begin("place")

        with threads_explained(self.parameters), closing(batches()) as tracked:
            write(self.writer(output), tracked, written=written)
        return self.recorded(self.result(output, ()))

    def writer(self, output: Path, drafts: Path | None = None) -> WriterThread:
        """Return what writes the tractogram."""

        def fields() -> dict[str, object]:
            """Return what the header of a .tck says of the run, once all seeds are tracked."""
            counted = {"streamlines": self.counts.streamlines, "dropped": self.dropped}
            return header_fields(self.record(counted), self.plan.space)

        return WriterThread(
            output, self.plan.space, force=self.force, drafts=drafts, content=self.content.of, fields=fields,
            **self.content.layout(self.step_mm),
        )

    def recorded(self, result: TrackResult) -> TrackResult:
        """Write the records of a result, and the page about it; return it."""
        return self.reported(result, self.write_records(result))

    def write_records(self, result: TrackResult) -> Json:
        """Write the records of a result; return the one that lies beside its first file."""
        file = {} if result.path is None else {"tractogram": tractogram(result.path)}
        told = result.record | file | self.products.told
        beside = record_path(result.path, self.products.paths)
        assert beside is not None
        sidecar.write_record(beside, told, force=self.force)
        if self.parameters.json_stats is not None:
            sidecar.write_json(self.parameters.json_stats, result.as_dict(), force=self.force)
        return told

    def reported(self, result: TrackResult, record: Json | None = None) -> TrackResult:
        """Write the page about a result, if one is asked for; ``record`` is that of its files. Return the result."""
        page = self.parameters.report
        if self.gathered is None or page is None:
            return result
        from ..report.page import Told
        from .reporting import report

        self.log.begin("report")
        output = None if result.path is None else str(result.path)
        facts = Told(record or result.record, output, self.counts.histogram, result.notes, result.products)
        report(
            Path(page), facts, self.gathered, self.plan.background, self.engine, self.plan.prepared, force=self.force,
        )
        return result

    def result(self, path: Path | None, batches: tuple[Batch, ...]) -> TrackResult:
        """Sum up the run."""
        counted = self.counts.summary(self.step_mm)
        result = TrackResult(
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
            notes=tuple(map(python_names, self.log.notes)),
            warnings=tuple(map(python_names, self.log.warnings)),
            space=self.plan.space,
            batches=batches,
            sample=Batch.concatenate(self.sample),
            products=self.products.values,
            record={},
        )
        return replace(result, record=self.record(result.as_dict()))

    def record(self, stats: Mapping[str, object]) -> Json:
        """Gather what is written beside the tractogram."""
        parameters, plan = self.parameters, self.plan
        inputs = inputs_of({**parameters.inputs(), **self.series}, plan.hashes)
        devices = [device.as_dict() for device in self.devices]
        content = record(parameters, self.step_mm, inputs, devices[0], stats)
        content |= {"frames": plan.frames, "chosen": plan.chosen, "warnings": self.log.warnings}
        content |= {"devices": devices} if len(devices) > 1 else {}
        content |= compiler_told(self.devices[0]) | self.content.told
        if parameters.bids_out is not None:
            content |= bids.metadata(parameters, self.series["dwi"], plan.space, self.step_mm)
        if parameters.part is not None:
            seeds, (number, parts) = self.seed_range, part_of(parameters.part)
            content["part"] = {
                "number": number, "of": parts, "first_seed": seeds.start, "seeds": len(seeds),
                "downsample": parameters.parts,  # which a part has no need of, since it has all points
            }
        followed = METHODS[parameters.dg].low_order
        content["parameters"] |= {name: value for name, value in plan.chosen.items() if name in followed}
        return content
