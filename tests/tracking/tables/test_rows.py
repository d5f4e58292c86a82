"""Each getter, with rules and particles: rows that no step reads, chunks, threads and launches change no bit."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from nights import at_night
from queued import queued_device
from synthetic import gradients, noisy_crossing

from tistreamlines.devices import Device, choose
from tistreamlines.io.samples import Samples
from tistreamlines.kernels.stop_reasons import Stop
from tistreamlines.options.parameters import Parameters
from tistreamlines.space.batch import Batch, Space
from tistreamlines.space.sphere import load_sphere
from tistreamlines.tracking.engine.engine import Engine
from tistreamlines.tracking.growth.pace import Pace
from tistreamlines.tracking.growth.settings import Settings
from tistreamlines.tracking.registry import METHODS, STOPPING_RULES
from tistreamlines.tracking.tables.inputs import GetterInputs, KernelTables, OrientationFunctions, Signals, StopTables

SHAPE, SIDES = (14, 13, 12), (2.0, 2.0, 2.5)
SEEDS = np.random.default_rng(3).uniform(-0.4, np.array(SHAPE) - 0.6, (300, 3))  # also where nothing is alive
PFT = {"pft": True, "pft_back": 1.4, "pft_front": 0.7}
SHORT_PROBE = {"probe_length": 0.5, "max_angle": 60.0}
CASES = [  # direction getter, stopping rule, step size (mm), options
    *((dg, rule, 7.0, {}) for dg in ("prob", "ptt") for rule in ("threshold", "binary")),
    *((dg, rule, 2.1 if dg == "ifod2" else 0.7, {}) for dg, rule in zip(METHODS, cycle(("cmc", "act")))),
    ("prob", "cmc", 0.7, {}),
    *((dg, "cmc", 7.0, {}) for dg in ("prob", "ptt")),
    *(("prob", rule, 0.7, PFT | {"pft_min_wm": least}) for rule in ("act", "cmc") for least in (0.0, 0.5)),
    ("boot", "cmc", 0.7, PFT),
    ("ptt", "act", 0.7, PFT),
    ("bedpostx", "cmc", 0.7, PFT),
    *(("bedpostx", rule, 4.0, {"modified_euler": True}) for rule in ("threshold", "binary")),
    ("ptt", "cmc", 2.0, SHORT_PROBE),
]


def hard_maps() -> dict[str, np.ndarray]:
    """Maps with hard edges: blocks of pure and of mixed tissue, few of them white matter."""
    rng = np.random.default_rng(5)
    corners = tuple(-(-side // 3) for side in SHAPE)
    pure = rng.choice(6, corners, p=(0.3, 0.3, 0.2, 0.1, 0.05, 0.05))
    blocks = np.kron(pure, np.ones((3, 3, 3), int))[: SHAPE[0], : SHAPE[1], : SHAPE[2]]
    include = np.float32([0, 1, 0, 0.6, 0.3, 0])[blocks]
    exclude = np.float32([0, 0, 1, 0.4, 0.7, 0.75])[blocks]
    return {"include_map": include, "exclude_map": exclude, "stop_mask": blocks < 1, "stop_map": 1 - include - exclude}


def followed(dg: str) -> Any:
    """Crossing fibres in noise, so that streamlines go everywhere."""
    if "signals" in METHODS[dg].follows:
        return Signals(noisy_crossing(gradients(), SHAPE), gradients())
    if dg == "bedpostx":
        drawn = np.random.default_rng(7).normal(size=(np.prod(SHAPE), 4, 2, 4)).astype(np.float32)
        drawn[..., :3] /= np.linalg.norm(drawn[..., :3], axis=-1, keepdims=True)
        drawn[..., 3] = 0.5
        return Samples(drawn, np.ones(SHAPE, bool), Space(np.diag([*SIDES, 1.0]), SHAPE))
    if dg == "fact":
        peaks = np.random.default_rng(7).normal(0, 0.3, (*SHAPE, 24)).astype(np.float32)
        return OrientationFunctions("peaks", peaks)
    if "pmf" not in METHODS[dg].follows:
        harmonics = np.random.default_rng(7).normal(0.5, 0.3, (*SHAPE, 15)).astype(np.float32)
        return OrientationFunctions("sh", harmonics, "descoteaux07")
    values = np.random.default_rng(7).gamma(0.3, 1, (*SHAPE, len(load_sphere("default")[0])))
    return OrientationFunctions("pmf", values.astype(np.float32))


def stop_of(rule: str, parameters: Parameters) -> StopTables:
    row, maps = STOPPING_RULES[rule], hard_maps()
    return row.prepare({name: maps[name] for name in row.maps if name in maps}, dict, parameters, SIDES)


def tables(stop: StopTables, parameters: Parameters) -> KernelTables:
    """Tables of a getter, with rows of the voxels that steps may read from those where the rule lets them go on."""
    arrays = GetterInputs(followed(parameters.dg), stop, SEEDS, "default", parameters.step_mm(SIDES), SIDES)
    return METHODS[parameters.dg].prepare(arrays, parameters)


def tracked(
    prepared: KernelTables, step_mm: float, device: Device | None = None, **settings: Any
) -> tuple[str, np.ndarray]:
    """Hash of the streamlines, and their stop reasons."""
    space = Space(np.diag([*SIDES, 1.0]), SHAPE)
    engine = Engine(prepared, space, device or choose("cpu"), Settings(step_mm, max_steps=60, **settings))
    batch = Batch.concatenate(list(engine.track(SEEDS)))
    return hashlib.sha256(batch.points.tobytes() + batch.offsets.tobytes()).hexdigest(), batch.stop_reasons


def parameters_of(dg: str, rule: str, step: float, options: dict[str, Any]) -> Parameters:
    named = {"dg": dg, "stopping": rule, "step_size": f"{step}mm", "max_angle": 45.0, "sh_order": 4}
    return Parameters(**named | options)


@pytest.mark.parametrize("case", [*CASES[::2], *at_night(*((case,) for case in CASES[1::2]))], ids=str)
def test_rows_that_no_step_reads_and_chunks_and_threads_change_nothing(case):
    parameters = parameters_of(*case)
    step_mm, stop = parameters.step_mm(SIDES), stop_of(parameters.stopping, parameters)
    every, few = tables(replace(stop, alive=None), parameters), tables(stop, parameters)
    assert np.count_nonzero(every.volume.index) == np.prod(SHAPE)
    expected, reasons = tracked(every, step_mm)
    assert len(reasons) > 90
    assert (reasons == Stop.VALID_END).any() or parameters.stopping == "threshold"
    for prepared, settings in ((few, {}), (every, {"threads": 1, "chunk_size": 41})):
        digest, ends = tracked(prepared, step_mm, **settings)
        assert digest == expected, settings
        assert np.array_equal(ends, reasons), settings


@pytest.mark.parametrize("case", [("prob", "act", 0.7, PFT), *at_night((("ptt", "act", 0.7, PFT),))], ids=str)
def test_short_launches_change_nothing(case, monkeypatch):
    """Halves are kept between launches of three steps, which a device takes with rows that lie as those of GPUs."""
    parameters = parameters_of(*case)
    step_mm, stop = parameters.step_mm(SIDES), stop_of(parameters.stopping, parameters)
    prepared = tables(stop, parameters)
    expected, reasons = tracked(prepared, step_mm)
    monkeypatch.setattr(Pace, "steps", lambda *_: 3)
    digest, ends = tracked(prepared, step_mm, queued_device(monkeypatch))
    assert digest == expected
    assert np.array_equal(ends, reasons)
