"""The getter ``bedpostx`` with the interface of the oracle (``probtrackx.Probtrackx``)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from probtrackx import LENGTH, NO_DIRECTION, OUTSIDE, Half, Options

from tistreamlines.devices import choose
from tistreamlines.io.samples import Samples
from tistreamlines.kernels.stop_reasons import Stop
from tistreamlines.options.parameters import Parameters
from tistreamlines.space.batch import Batch
from tistreamlines.tracking.engine.engine import Engine
from tistreamlines.tracking.growth.settings import Settings
from tistreamlines.tracking.registry import METHODS
from tistreamlines.tracking.stopping import threshold
from tistreamlines.tracking.tables.inputs import GetterInputs

REASONS = {
    Stop.VALID_END: OUTSIDE, Stop.OUTSIDE_IMAGE: OUTSIDE, Stop.NO_DIRECTION: NO_DIRECTION, Stop.MAX_LENGTH: LENGTH,
}


class AllLengths(Settings):
    """Settings with which streamlines without a step are kept."""

    @property
    def bounds(self) -> tuple[int, int]:
        return 0, 2 * self.max_steps


@dataclass(frozen=True)
class Getter:
    """The getter through samples; it ends outside their mask."""

    samples: Samples
    options: Options = field(default_factory=Options)
    arch: str = "cpu"

    def track(self, seeds: np.ndarray, **settings: object) -> Batch:
        """Streamlines of seeds (n, 3), voxel; points are in RASmm."""
        options, space = self.options, self.samples.space
        sides = tuple(float(side) for side in space.voxel_sizes)
        named = {name: getattr(options, name) for name in ("max_angle", "use_f", "random_fibre", "modified_euler")}
        chosen = Parameters(dg="bedpostx", **named)
        mask = self.samples.mask.astype(np.float32)
        stop = threshold.prepare_binary({"stop_mask": mask}, lambda: mask, chosen, sides)
        seeds = np.asarray(seeds, np.float32)
        arrays = GetterInputs(self.samples, stop, seeds.astype(float), step_mm=options.step_size, voxel_sizes=sides)
        used = AllLengths(
            options.step_size, max_steps=options.max_steps, one_way=options.one_way, either_sense=False,
            rng_seed=options.key[0], **settings,
        )
        engine = Engine(METHODS["bedpostx"].prepare(arrays, chosen), space, choose(self.arch), used)
        return Batch.concatenate(list(engine.track(seeds)))

    def halves(self, seeds: np.ndarray) -> list[tuple[Half, ...]]:
        """Both halves, or with ``one_way`` the forward one, of each seed; none where nothing starts."""
        pairs: list[tuple[Half, ...]] = [()] * len(seeds)
        batch = self.track(seeds)
        for i, line in enumerate(batch):
            points = self.samples.space.to_voxel(line.astype(float))
            seed = int(batch.seed_number[i])
            start = int(np.argmin(np.linalg.norm(points - seeds[seed], axis=1)))
            ends = [REASONS.get(Stop(reason), "") for reason in batch.stop_reasons[i]]
            both = Half(points[start:], ends[1]), Half(points[: start + 1][::-1], ends[0])
            pairs[seed] = both[: 1 if self.options.one_way else 2]
        return pairs
