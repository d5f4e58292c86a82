"""The dialects against each other, a dialect that is wrong on purpose, and the whole against DIPY's tracking."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from dialects import ints, program, reals
from places import CROP
from refits import KEYS, harmonics_of, refits, refitted
from synthetic import boot_case, gradients, noisy_crossing
from tables import prepare_boot

from tistreamlines.benchmarks.cases import METHODS, Case
from tistreamlines.benchmarks.problem import Problem, save_problem
from tistreamlines.benchmarks.targets import TARGETS
from tistreamlines.fit.tensor import tensor_fa
from tistreamlines.kernels import growth, streamlines
from tistreamlines.kernels.products.points import pack
from tistreamlines.linker import interpreted as _python
from tistreamlines.linker.link import link
from tistreamlines.linker.store import load
from tistreamlines.tracking.tables.inputs import KernelTables

needs_crop = pytest.mark.skipif(not CROP.exists(), reason="the Sherbrooke crop is not beside this checkout")
ROOTS = [streamlines.start, streamlines.enlist, growth.advance, pack]  # as the engine has them: linked once
LIMIT = 60


def grow(dialect: str, prepared: KernelTables, seeds: np.ndarray, step: float = 0.5) -> dict[str, Any]:
    """Arrays of the halves grown from seeds, by the kernels alone."""
    linked = program(dialect, ROOTS, prepared, prepared.scratch)
    n, most = len(seeds), prepared.scalars["seeds_most"]
    values = {k: linked.array(v) for k, v in prepared.arrays.items()} | prepared.scalars
    values |= {f"rules_step_{a}": step for a in "xyz"} | {"rules_max_steps": LIMIT, "rules_first_seed": 0}
    values |= {"rules_key": linked.array(np.array([9, 0])), "seeds_points": linked.array(seeds.ravel())}
    values |= {"seeds_counts": ints(n), "seeds_peaks": ints(n * most)}
    linked.run("start", n, values)
    count = int(values["seeds_counts"].sum())
    values["slot"] = (np.cumsum(values["seeds_counts"]) - values["seeds_counts"]).astype(np.int32)
    values |= {f"halves_{k}": ints(count) for k in ("seed", "branch", "initial", "first")}
    values |= {
        "halves_state": ints(4 * count),
        "halves_codes": ints(2 * count * LIMIT),
        "halves_point": linked.array(reals(6 * count)),
    }
    linked.run("enlist", n, values)
    linked.run("advance", count, values | {"stride": 2, "sides": 1, "steps": 1})
    linked.run("advance", 2 * count, values | {"stride": 1, "sides": 1, "steps": LIMIT})
    return values


@pytest.fixture(scope="module")
def small() -> tuple[KernelTables, np.ndarray]:
    """Tables and seeds of noisy crossing fibres."""
    data = noisy_crossing(gradients(), (7, 7, 7), snr=12.0)
    seeds = np.random.default_rng(1).uniform(1, 5, (5, 3)).astype(np.float32).astype(float)
    return prepare_boot(data, gradients(), np.ones((7, 7, 7), np.float32), 0.5, seeds), seeds


def test_float64_dialects_grow_the_same_streamlines(small):
    plain, compiled = (grow(dialect, *small) for dialect in ("python", "numba64"))
    for name in ("seeds_counts", "seeds_peaks", "halves_state", "halves_codes"):
        assert np.array_equal(plain[name], compiled[name]), name
    assert plain["halves_state"][::2].sum() > 60
    assert np.abs(plain["halves_point"] - compiled["halves_point"]).max() < 1e-10


@pytest.mark.nightly
def test_single_precision_grows_nearly_the_same(small):
    double, single = (grow(dialect, *small) for dialect in ("numba64", "numba32"))
    assert np.array_equal(double["seeds_counts"], single["seeds_counts"])
    same = double["halves_state"][::2] == single["halves_state"][::2]
    assert same.mean() > 0.8
    gap = np.abs(double["halves_point"] - single["halves_point"]).reshape(-1, 3).max(axis=1)
    assert np.median(gap[same]) < 1e-5


def mutated(old: str, new: str, count: int) -> np.ndarray:
    """Coefficients of the interpreted dialect with one constant of its text replaced."""
    prepared = boot_case()
    linked = link([refitted], _python.dialect(), prepared.source([refitted]).filling)
    assert old in linked.text
    module = load(linked.text.replace(old, new))
    team = {n: np.zeros(size, np.int32 if kind == "ints" else float) for n, (kind, size) in prepared.scratch.items()}
    out = reals(count * prepared.getter.coefficients)
    values = prepared.arrays | prepared.scalars | team | KEYS | {"p": (1.0, 1.0, 1.0), "out": out}
    for item in range(count):
        module.refitted(item, *(values[n] for n, _ in linked.signatures["refitted"] if n != "item"))
    return out


def test_parity_notices_a_wrong_constant():
    count = 2
    expected = refits("numba64", boot_case(), 60, 4)[:count]
    for old, new in (
        ("1.0", "1.0"), ("-1.5", "-1.50000001"), ("0.25", "0.2500001"), ("3449720151", "3449720153"),
        ("3144134277", "3144134279"), ("(chunk + k) * 32", "(chunk + k) * 31"),
    ):
        gap = np.abs(harmonics_of(mutated(old, new, count).reshape(expected.shape), 4) - expected).max()
        assert (gap / np.abs(expected).max() > 1e-10) == (old != new), (old, new)


# ------------------------------------------------------------------------------------------------- on real data
@pytest.fixture(scope="module")
def crop():
    from tistreamlines.io import nifti

    dwi = nifti.load_dwi(CROP / "dwi.nii.gz", CROP / "dwi.bval", CROP / "dwi.bvec")
    mask = nifti.load_mask(CROP / "mask.nii.gz", dwi.space)
    fa = tensor_fa(dwi.data, dwi.gtab, mask)
    rng = np.random.default_rng(0)
    voxels = np.argwhere(mask & (fa > 0.25))
    seeds = voxels[rng.integers(len(voxels), size=800)] + rng.uniform(-0.5, 0.5, (800, 3))
    return dwi, fa, seeds.astype(np.float32).astype(float)


@needs_crop
def test_initial_directions_in_both_precisions(crop):
    dwi, fa, seeds = crop
    prepared = prepare_boot(dwi.data, dwi.gtab, fa, 0.1, seeds)
    rows = []
    for dialect in ("numba32", "numba64"):
        linked = program(dialect, ROOTS, prepared, prepared.scratch)
        values = {k: linked.array(v) for k, v in prepared.arrays.items()} | prepared.scalars
        values |= {"seeds_points": linked.array(seeds.ravel()), "seeds_counts": ints(800)}
        values["seeds_peaks"] = ints(800 * prepared.scalars["seeds_most"])
        linked.run("start", 800, values)
        rows.append(np.column_stack([values["seeds_counts"], values["seeds_peaks"].reshape(800, -1)]))
    assert (rows[0] != rows[1]).any(axis=1).sum() <= 4  # a peak at the threshold, or two of nearly one height
    assert rows[0][:, 0].max() > 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The crop as a problem of the benchmark, whose table of trackers is used here too."""
    problem = tmp_path_factory.mktemp("problem")
    paths = tuple(str(CROP / f"dwi.{suffix}") for suffix in ("nii.gz", "bval", "bvec"))
    save_problem(Case("crop", paths=paths, mask=str(CROP / "mask.nii.gz")), problem)
    return problem


@needs_crop
@pytest.mark.filterwarnings("ignore:The legacy:PendingDeprecationWarning")
@pytest.mark.parametrize(
    ("method", "nseeds"),
    [pytest.param("boot", 150, marks=pytest.mark.slow), pytest.param("boot-csa", 400, marks=pytest.mark.nightly),
     ("prob", 500), ("det", 500), ("ptt", 200)],
)
def test_the_whole_is_dipys_local_tracking(folder, method, nseeds):
    """At night also the bootstrap of another model, of which DIPY takes long."""
    problem = Problem(folder, METHODS[method], nseeds)
    ours, theirs = (np.diff(TARGETS[name].open(problem)(nseeds).offsets) for name in ("cpu", "dipy"))
    assert abs(len(ours) - len(theirs)) <= 2 + 0.01 * len(theirs)
    error = np.hypot(ours.std() / np.sqrt(len(ours)), theirs.std() / np.sqrt(len(theirs)))
    assert abs(ours.mean() - theirs.mean()) < (0.05 if method == "det" else 3) * error
