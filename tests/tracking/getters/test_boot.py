"""The residual bootstrap against DIPY's models and its BootDirectionGetter."""

from __future__ import annotations

import numpy as np
import pytest
from dialects import ints, reals
from dipy.core.interpolation import trilinear_interpolate4d
from dipy.data import default_sphere
from dipy.direction import BootDirectionGetter
from dipy.reconst import shm
from refits import KEYS, go, harmonics_of, refits
from scipy.stats import chi2
from synthetic import boot_case, gradients, noisy_crossing

from tistreamlines.kernels.getters import boot
from tistreamlines.kernels.getters.boot import (
    COEFFICIENTS,
    Boot,
    BootScratch,
    fit_drawn,
    fit_plain,
    next_direction,
    odf_peaks,
)
from tistreamlines.kernels.interpolate import Volume, interpolate_row
from tistreamlines.kernels.orientation.peaks import AGAIN, closest_peak
from tistreamlines.linker.lang import Ints, Reals, barrier, func, i32, u32, vec3
from tistreamlines.space.harmonics import from_harmonics
from tistreamlines.space.sphere import load_sphere

MODELS = {"opdt": shm.OpdtModel, "csa": shm.CsaOdfModel}


@func
def plain(item: i32, volume: Volume, method: Boot, scratch: BootScratch, points: Reals, out: Reals):
    """Coefficients of the signals as they are."""
    interpolate_row(volume, vec3(points[3 * item], points[3 * item + 1], points[3 * item + 2]), scratch.row)
    barrier()
    fit_plain(method, scratch)
    for j in range(COEFFICIENTS):
        out[item * COEFFICIENTS + j] = scratch.coefficients[j]


@func
def drawn(
    item: i32, volume: Volume, method: Boot, scratch: BootScratch, p: vec3, heading: vec3, attempts: i32, key: Ints,
    counts: Ints, codes: Ints,
):
    """Peaks and closest peak of each attempt of counter ``item``."""
    interpolate_row(volume, p, scratch.row)
    barrier()
    for attempt in range(attempts):
        place = item * attempts + attempt
        fit_drawn(method, scratch, u32(item), u32(1), u32(2), u32(attempt << 16), key)
        counts[place] = odf_peaks(method, scratch, heading)
        codes[place] = closest_peak(method.sphere, method.rule, scratch.peaks, counts[place], heading)


@func
def chosen(
    item: i32, volume: Volume, method: Boot, scratch: BootScratch, p: vec3, heading: vec3, key: Ints, codes: Ints
):
    """The direction code of counter ``item``."""
    code = AGAIN
    attempt = 0
    while code == AGAIN:
        interpolate_row(volume, p, scratch.row)
        barrier()
        code = next_direction(method, scratch, heading, attempt, u32(item), u32(1), u32(2), key)
        attempt = attempt + 1
    codes[item] = code


@func
def sampled(item: i32, method: Boot, scratch: BootScratch, coefficients: Reals, heading: vec3, size: i32, out: Reals):
    """The ODF of given coefficients."""
    for j in range(COEFFICIENTS):
        scratch.coefficients[j] = coefficients[j]
    odf_peaks(method, scratch, heading)
    for i in range(size):
        out[i] = scratch.odf[i]


def dipy_model(model, n, order):
    return MODELS[model](gradients(n), sh_order_max=order, smooth=0.006, min_signal=1)


def fitted(model, n, order, points, data):
    dipy = dipy_model(model, n, order)
    return np.array([dipy.fit(np.asarray(trilinear_interpolate4d(data.astype(float), p))).shm_coeff for p in points])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("order", [2, 4, 6, 8])
@pytest.mark.parametrize("n", [64, 150])
def test_plain_coefficients_are_dipys(model, order, n):
    prepared = boot_case(n, order, model)
    points = np.random.default_rng(5).uniform(-0.5, 2.4, (12, 3))
    points[0] = 1.0
    got = go("python", plain, 12, prepared, points=points, out=reals(12 * prepared.getter.coefficients))["out"]
    got = harmonics_of(got.reshape(12, -1), order)
    expected = fitted(model, n, order, points, noisy_crossing(gradients(n)))
    scale = np.abs(expected).max(axis=1, keepdims=True)
    assert np.abs(got.reshape(expected.shape) - expected).max() < 1e-5 * scale.max()
    assert np.all(np.abs(got.reshape(expected.shape) - expected) < 1e-5 * scale)


def test_plain_coefficients_in_float32():
    prepared = boot_case(150, 8, "csa")
    points = np.random.default_rng(5).uniform(-0.5, 2.4, (12, 3)).astype(np.float32).astype(float)
    size = reals(12 * prepared.getter.coefficients)
    exact, got = (go(dialect, plain, 12, prepared, points=points, out=size)["out"] for dialect in ("python", "numba32"))
    assert np.abs(got - exact).max() < 3e-5 * np.abs(exact).max()


def attempted(prepared, count, attempts, heading):
    """(count, attempts) numbers of peaks, and codes of the closest ones."""
    size = count * attempts
    values = {"p": (1.0, 1.0, 1.0), "heading": heading, "attempts": attempts} | KEYS
    held = go("python", drawn, count, prepared, counts=ints(size), codes=ints(size), **values)
    return held["counts"].reshape(count, attempts), held["codes"].reshape(count, attempts)


def dipy_draws(model, n, order, count):
    """Coefficients of DIPY's own bootstrap at the middle voxel."""
    gtab, dwi = gradients(n), ~gradients(n).b0s_mask
    signal = noisy_crossing(gtab)[1, 1, 1].astype(float)
    basis = shm.real_sh_descoteaux(order, *shm.cart2sphere(*gtab.gradients[dwi].T)[1:], legacy=True)[0]
    hat = shm.hat(basis)
    residuals = shm.lcr_matrix(hat)
    series = np.tile(signal, (count, 1))
    rng = np.random.default_rng(6)
    for row in series:
        row[dwi] = shm.bootstrap_data_voxel(signal[dwi], hat, residuals, permute=rng.integers(n, size=n))
    return dipy_model(model, n, order).fit(series).shm_coeff


@pytest.mark.parametrize(("model", "order", "n"), [("opdt", 4, 64), ("opdt", 8, 150), ("csa", 4, 64), ("csa", 6, 150)])
def test_drawn_coefficients_have_dipys_mean_and_covariance(model, order, n):
    count = 1000
    prepared = boot_case(n, order, model)
    got = refits("numba64", prepared, count, order)
    expected = dipy_draws(model, n, order, 3 * count)
    if model == "csa":  # its first coefficient is fixed
        assert np.allclose(got[:, 0], expected[0, 0], rtol=1e-6)
        got, expected = got[:, 1:], expected[:, 1:]
    k = got.shape[1]
    gap = got.mean(axis=0) - expected.mean(axis=0)
    spread = np.cov(expected.T)
    assert chi2.sf(gap @ np.linalg.solve(spread * (1 / count + 1 / (3 * count)), gap), k) > 1e-3
    # whiten by DIPY's covariance: ours must be the unit matrix, each entry within its own standard error
    white = np.linalg.inv(np.linalg.cholesky(spread))
    excess = white @ np.cov(got.T) @ white.T - np.eye(k)
    error = np.sqrt((1 + np.eye(k)) * (1 / count + 1 / (3 * count)))
    assert np.abs(excess / error).max() < 5
    assert np.sqrt(np.mean((excess / error) ** 2)) < 1.35


def test_compiled_dialects_draw_the_same_coefficients():
    for options in ({}, {"n": 150, "order": 6, "model": "csa"}):
        prepared, order = boot_case(**options), options.get("order", 4)
        exact = refits("python", prepared, 30, order)
        for dialect, bound in (("numba64", 1e-10), ("numba32", 1e-4)):
            assert np.abs(refits(dialect, prepared, 30, order) - exact).max() < bound * np.abs(exact).max()


def test_angular_weighting():
    prepared = boot_case(angular_weight=0.4)
    vertices, _ = load_sphere("default")
    basis = shm.real_sh_descoteaux(4, *shm.cart2sphere(*vertices.T)[1:], legacy=True)[0]
    coefficients = np.random.default_rng(7).normal(size=15)
    heading = np.array([0.36, -0.48, 0.8])
    values = {"coefficients": from_harmonics(4) @ coefficients, "heading": tuple(heading), "size": len(vertices)}
    values["out"] = reals(len(vertices))
    got = go("python", sampled, 1, prepared, **values)["out"]
    assert np.allclose(got, (basis @ coefficients) * (0.6 + 0.4 * np.abs(vertices @ heading)), rtol=1e-12)
    plain_odf = go("python", sampled, 1, boot_case(), **values | {"out": reals(len(vertices))})["out"]
    assert np.allclose(plain_odf, basis @ coefficients, rtol=1e-12)


def expected_codes(counts, codes, rule):
    """What a rule makes of the attempts' peaks."""
    out = []
    for row_counts, row_codes in zip(counts, codes, strict=True):
        tried = np.flatnonzero(row_counts > 0) if rule == "dipy" else np.flatnonzero(row_codes >= 0)
        out.append(int(row_codes[tried[0]]) if len(tried) else -1)
    return out


@pytest.mark.parametrize("rule", ["dipy", "cuslines"])
def test_a_redraw_follows_its_rule(rule):
    # a narrow angle about a heading between the fibres: many draws have no peak within it
    options = {"max_angle": 30.0, "negative_odf": "none", "snr": 4.0}
    heading = (0.3, 0.9, 0.316)
    prepared = boot_case(boot_rule=rule, **options)
    count = 60
    counts, codes = attempted(prepared, count, 5, heading)
    values = {"p": (1.0, 1.0, 1.0), "heading": heading, "codes": ints(count)} | KEYS
    got = go("python", chosen, count, prepared, **values)["codes"]
    assert got.tolist() == expected_codes(counts, codes, rule)
    other = expected_codes(counts, codes, "cuslines" if rule == "dipy" else "dipy")
    assert got.tolist() != other


@pytest.mark.parametrize("model", MODELS)
def test_a_direction_is_missing_as_often_as_dipys(model):
    n, count, heading = 64, 1200, np.array([0.46, 0.643, 0.6126])  # about max_angle from a fibre
    options = {"relative_peak_threshold": 0.25, "min_separation_angle": 45}
    data = noisy_crossing(gradients(n), snr=8.0).astype(float)
    getter = BootDirectionGetter.from_data(
        data, dipy_model(model, n, 4), max_angle=40.0, sphere=default_sphere, sh_order=4, **options
    )
    np.random.seed(8)  # noqa: NPY002  DIPY draws from the global generator
    theirs = np.mean([getter.get_direction(np.ones(3), heading.copy()) for _ in range(count)])
    prepared = boot_case(n, 4, model, snr=8.0, max_angle=40.0)
    values = {"p": (1.0, 1.0, 1.0), "heading": tuple(heading), "codes": ints(count)} | KEYS
    ours = np.mean(go("numba32", chosen, count, prepared, **values)["codes"] < 0)
    error = np.sqrt(theirs * (1 - theirs) * 2 / count)
    assert 0.02 < theirs < 0.98
    assert abs(ours - theirs) < 4 * error


def test_the_plain_peaks_are_the_fibres():
    prepared = boot_case(snr=200.0)
    values = {"p": (1.0, 1.0, 1.0), "heading": (0.6, 0.0, 0.8), "codes": ints(20)} | KEYS
    codes = go("python", chosen, 20, prepared, **values)["codes"]
    towards = load_sphere("default")[0][codes >> 1] * np.where(codes & 1, -1, 1)[:, None]
    assert np.degrees(np.arccos((towards @ [0.6, 0.0, 0.8]).min())) < 8
    assert boot.NONE == -1
