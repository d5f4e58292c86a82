"""ACT on five tissues: tissues against numpy, ends of halves in a made-up head, and streamlines beside tckgen's."""

import os
import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from dialects import DIALECTS, ints, reals
from dialects import run as run_kernel
from distributions import unit
from head import make_head, sampled, straight_fod, tracked
from nights import at_night
from scipy.stats import kstest

import tistreamlines as ts
from tistreamlines.errors import TrackingError
from tistreamlines.kernels.stop_reasons import VALID, Stop
from tistreamlines.kernels.stopping.five_tissues import (
    CORTEX,
    FLUID,
    NOWHERE,
    PATHOLOGY,
    SUBCORTEX,
    SUMS,
    VALUES,
    WHITE,
    Act5,
    fluid_at,
    kind_of,
    may_begin,
    tissues_at,
)
from tistreamlines.linker.lang import Ints, Reals, at, func, i32, put, vec3
from tistreamlines.space.harmonics import sampling_matrix
from tistreamlines.tracking.stopping.act5 import CUTS, plain_white, prepare, with_sum
from tistreamlines.tracking.tables.inputs import MapCount, MapImage

TURN = np.array([[0.55, -0.2, 0.1, 3.0], [0.15, 0.6, -0.1, -2.0], [-0.1, 0.05, -0.7, 20.0], [0, 0, 0, 1]])
RECOVERED = {"backtrack": True, "crop_at_gmwmi": True}


@func
def looked_at(
    item: i32, image: Act5, points: Reals, shares: Reals, kinds: Ints, begins: Ints, fluids: Reals
):
    """Tissues at a point, its kind, whether a streamline may begin there, and its fluid by lanes."""
    p = vec3(points[3 * item], points[3 * item + 1], points[3 * item + 2])
    tissues = tissues_at(image, p)
    put(shares, 32 * item, tissues)
    kinds[item] = kind_of(tissues)
    begins[item] = may_begin(tissues)
    at_once = vec3(at(points, 0) * 0.0 + p[0], at(points, 0) * 0.0 + p[1], at(points, 0) * 0.0 + p[2])
    put(fluids, 32 * item, fluid_at(image, at_once))


def expected(shares: np.ndarray) -> tuple[int, int]:
    """Kind and begin of five shares, by the rules of MRtrix3's ``Tissues`` in words of their own."""
    cortical, subcortical, white, fluid, pathology = shares
    grey = cortical + subcortical
    if shares.sum() < 0.5:
        return NOWHERE, 0
    deep = subcortical > max(cortical, fluid, pathology) and subcortical >= white
    wet = fluid >= max(cortical, subcortical, white, pathology)
    begin = 2 if deep else int(not wet and white > 0 and grey - white < 0.01)
    if begin == 1 and grey > white and cortical > subcortical:
        begin = 3
    if wet:
        return FLUID, begin
    if grey >= white and grey > max(fluid, pathology):
        return (CORTEX if cortical >= subcortical else SUBCORTEX), begin
    return (PATHOLOGY if pathology >= max(cortical, subcortical, white) and pathology > fluid else WHITE), begin


def look_at(dialect: str, image: MapImage, points: np.ndarray, plain: np.ndarray) -> dict[str, np.ndarray]:
    """Run :func:`looked_at` for points, with voxels of plain white matter."""
    fields = {f"image_{name}": array for name, array in image.fields().items()} | {"image_plain": plain}
    fields |= {f"image_side_{x}": 1.0 for x in "xyz"}
    count = len(points)
    return run_kernel(
        dialect, looked_at, count, fields | {
            "points": points, "shares": reals(32 * count), "kinds": ints(count), "begins": ints(count),
            "fluids": reals(32 * count),
        }, MapCount(maps=VALUES),
    )


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tissues_at_a_point(dialect):
    rng = np.random.default_rng(3)
    values = rng.dirichlet(np.full(5, 0.4), (9, 12, 14)).astype(np.float32) * (rng.random((9, 12, 14, 1)) > 0.15)
    image, count = with_sum(MapImage(values, TURN)), 700
    points = rng.uniform(-5, 30, (count, 3))
    points[:350] = (rng.uniform(-0.4, [8.4, 11.4, 13.4], (350, 3)) - TURN[:3, 3]) @ np.linalg.inv(TURN[:3, :3]).T
    out = look_at(dialect, image, points, ints(9 * 12 * 14))
    q = points @ TURN[:3, :3].T + TURN[:3, 3]
    inside = ((q >= -0.5) & (q < np.array([9, 12, 14]) - 0.5)).all(axis=1)
    nearest = np.clip(np.floor(q + 0.5).astype(int), 0, [8, 11, 13])
    there = inside & values.any(axis=-1)[tuple(nearest.T)]
    shares = sampled(values, q).T
    shares *= there[:, None]
    clear = np.abs(q + 0.5 - np.rint(q + 0.5)).min(axis=1) > 1e-4  # of the borders of voxels
    np.testing.assert_allclose(out["shares"].reshape(-1, 32)[clear, SUMS : SUMS + 5], shares[clear], atol=1e-5)
    ties = np.array([np.min([abs(a - b) for i, a in enumerate(row) for b in row[i + 1 :]]) for row in shares])
    grey = shares[:, 0] + shares[:, 1]
    close = np.abs(np.stack([grey - shares[:, 2], grey - shares[:, 2] - 0.01, grey - shares[:, 3], grey - shares[:, 4],
                             shares.sum(axis=1) - 0.5])).min(axis=0)
    sure = clear & (~there | ((ties > 1e-4) & (close > 1e-4)))
    rows = [expected(row) for row in shares[sure]]
    np.testing.assert_array_equal(out["kinds"][sure], [kind for kind, _ in rows])
    np.testing.assert_array_equal(out["begins"][sure], [begin for _, begin in rows])
    assert {kind for kind, _ in rows} == {NOWHERE, FLUID, CORTEX, SUBCORTEX, PATHOLOGY, WHITE}
    valid = shares.sum(axis=1) >= 0.5
    expect = np.where(valid, shares[:, 3], 2.0)[sure]
    np.testing.assert_allclose(out["fluids"].reshape(-1, 32)[sure][:, [0, 31]].T, [expect, expect], atol=1e-5)


def test_plain_white_matter_has_white_matter_all_around():
    tissues = np.zeros((7, 6, 5, 5), np.float32)
    tissues[..., 2] = 1
    others = [0.2, 0.3, 0.5, 0, 0], [0, 0, 0.6, 0.5, 0], [0.1, 0, 0.35, 0, 0], [-0.1, 0, 1, 0, 0]
    for share in ([0, 0, 1, 0, 0], *others):
        tissues[3, 2, 2] = share
        expect = np.zeros((7, 6, 5), np.int32)
        expect[1:-1, 1:-1, 1:-1] = 1
        expect[2:5, 1:4, 1:4] = share not in others
        np.testing.assert_array_equal(plain_white(with_sum(MapImage(tissues, TURN)).values).reshape(7, 6, 5), expect)
    assert not plain_white(with_sum(MapImage(tissues[:, :, :2], TURN)).values).any()
    assert not plain_white(with_sum(MapImage(tissues[:0], TURN)).values).size


@pytest.mark.parametrize("dialect", DIALECTS)
def test_plain_white_matter_needs_no_interpolation(dialect):
    rng = np.random.default_rng(5)
    values = rng.dirichlet(np.full(5, 0.4), (9, 12, 14)).astype(np.float32)
    values[:, :, 6:] = values[:, :, 6:] * np.float32(0.19) + np.array([0, 0, 0.8, 0, 0], np.float32)
    points = (rng.uniform(-0.6, [8.6, 11.6, 13.6], (600, 3)) - TURN[:3, 3]) @ np.linalg.inv(TURN[:3, :3]).T
    image = with_sum(MapImage(values, TURN))
    plain = plain_white(image.values)
    quick, slow = look_at(dialect, image, points, plain), look_at(dialect, image, points, np.zeros_like(plain))
    assert 0 < plain.mean() < 0.5
    np.testing.assert_array_equal(quick["kinds"], slow["kinds"])
    np.testing.assert_array_equal(quick["begins"], slow["begins"])
    others = quick["fluids"] != slow["fluids"]
    assert others.any() and (quick["fluids"][others] == 0).all() and (slow["fluids"][others] < 0.5).all()
    shares = (each["shares"].reshape(-1, 32)[:, SUMS : SUMS + 5] for each in (quick, slow))
    pure = [0, 0, 1, 0, 0]
    near = np.array([np.array_equal(*rows) or rows[0].tolist() == pure for rows in zip(*shares, strict=True)])
    assert near.all()


# ------------------------------------------------------------------------------------------------------ a made-up head
@pytest.fixture(scope="module")
def head(tmp_path_factory):
    """See the module of this name."""
    return make_head(tmp_path_factory.mktemp("act"))


@pytest.fixture(scope="module")
def every(head):
    """All streamlines, also those that are not accepted."""
    return tracked(head, keep="all", min_length=0)


def test_halves_end_by_their_tissues(head, every):
    batch = ts.Batch.concatenate(list(every.batches))
    tissues = nib.load(head / "5tt.nii.gz").get_fdata()
    reasons = set()
    for i, line in enumerate(batch):
        seed = int(np.linalg.norm(line - batch.seeds[i], axis=1).argmin())
        for reason, half in zip(batch.stop_reasons[i], (line[: seed + 1][::-1], line[seed:]), strict=True):
            shares = sampled(tissues, half / 2)
            grey, deep = shares[0] + shares[1] >= shares[2] + 1e-4, shares[1] > shares[0]
            reasons.add(int(reason))
            if reason == Stop.ENTERED_CORTEX:  # the first point in the cortex is the last one
                assert (grey & ~deep)[1:-1].sum() == 0 and shares[0, -1] + shares[1, -1] >= shares[2, -1] - 1e-4
            elif reason == Stop.LEFT_SUBCORTEX:  # cut back to a point there
                assert shares[1, -1] + shares[0, -1] >= shares[2, -1] - 1e-4
            elif reason == Stop.INVALID_END and len(half) > 1:  # in fluid, or still in deep grey matter
                assert half[-1, 0] / 2 < 5 or sampled(tissues, half[:1] / 2)[1] > 0.4
    assert {Stop.ENTERED_CORTEX, Stop.LEFT_SUBCORTEX, Stop.INVALID_END} <= reasons


def test_accepted_streamlines_have_two_valid_ends(head, every):
    kept = tracked(head)
    assert kept.parameters.keep == "valid-ends" and kept.parameters.min_length == "2vox"
    valid = {Stop.ENTERED_CORTEX, Stop.LEFT_SUBCORTEX, Stop.IN_SUBCORTEX, Stop.OUTSIDE_IMAGE}
    batch = ts.Batch.concatenate(list(kept.batches))
    assert set(batch.stop_reasons.ravel().tolist()) <= {int(reason) for reason in valid}
    # every one of the streamlines of deep grey matter's half that goes on to the cortex, or through, is long
    assert 20 < len(batch) < every.n_streamlines
    # a streamline of white matter before deep grey matter ends in fluid on its other side
    assert kept.dropped["invalid_ends"] > 20


@pytest.mark.parametrize("longest", [None, 20.0])
def test_backward_halves_do_not_grow_in_vain(head, every, longest):
    """Those that are left out, or end early, change nothing of the streamlines that are accepted."""
    kept = tracked(head, max_length=longest)
    accepted, there = (ts.Batch.concatenate(list(run.batches)) for run in (kept, every))
    # points are 1 mm apart, besides the last ones of both halves
    reasons, mm = there.stop_reasons, there.lengths - 1
    valid = np.isin(reasons, VALID).all(axis=1) & (mm > 6) & (mm <= (longest or 200.0))
    lines = {tuple(key): line for key, line in zip(there.seeds.tolist(), there, strict=True)}
    for seed, line in zip(accepted.seeds.tolist(), accepted, strict=True):
        np.testing.assert_array_equal(line, lines[tuple(seed)])
    # a backward half that is cut back to deep grey matter may have been too long before
    missing = set(map(tuple, there.seeds[valid].tolist())) - set(map(tuple, accepted.seeds.tolist()))
    cut = set(map(tuple, there.seeds[reasons[:, 0] == Stop.LEFT_SUBCORTEX].tolist()))
    assert missing <= cut and (longest or not missing)
    assert kept.stop_reasons["not_grown"] > 50 and (not longest or kept.dropped["too_long"] > 50)
    assert kept.stop_reasons["invalid_end"] < every.stop_reasons["invalid_end"]


def test_a_seed_in_deep_grey_matter_leaves_it_once(head):
    """From the middle of deep grey matter, the forward half leaves it for good, and the backward half ends in it."""
    seeds = np.column_stack([np.full(40, 30.0), np.linspace(8, 12, 40), np.full(40, 16.0)])
    kept = tracked(head, seed_mask=None, nseeds=None, seeds=seeds, keep="all", min_length=0)
    batch = ts.Batch.concatenate(list(kept.batches))
    assert len(batch) > 30
    backward, forward = batch.stop_reasons.T
    assert np.mean(forward == Stop.ENTERED_CORTEX) > 0.1 and np.mean(forward == Stop.LEFT_SUBCORTEX) < 0.1
    assert np.mean(backward == Stop.LEFT_SUBCORTEX) > 0.4


@pytest.mark.parametrize("one_way", [False, True])
def test_what_never_leaves_the_deep_grey_matter_of_its_seed_is_dropped(head, tmp_path, one_way):
    """Fibres end within it; as in tckgen, this holds for one half alone, too."""
    image = nib.load(head / "fod.nii.gz")
    x, y, _, _ = np.indices(image.shape)
    fod = np.asarray(image.dataobj) * ((np.abs(x - 15) < 2) & (y < 7))
    nib.save(nib.Nifti1Image(fod.astype(np.float32), image.affine), tmp_path / "fod.nii.gz")
    seeds = np.column_stack([np.full(40, 30.0), np.linspace(8, 12, 40), np.full(40, 16.0)])
    more = {"sh": tmp_path / "fod.nii.gz", "seed_mask": None, "nseeds": None, "seeds": seeds, "min_length": 0}
    kept = tracked(head, one_way=one_way, **more)
    assert kept.n_streamlines == 0
    assert kept.dropped["invalid_ends"] > 30


def halves_of(run):
    """Points of each half from the seed on, and its stop reason, by the numbers of its seed and side."""
    halves, batch = {}, ts.Batch.concatenate(list(run.batches))
    for i, line in enumerate(batch):
        seed = int(np.linalg.norm(line - batch.seeds[i], axis=1).argmin())
        for side, half in enumerate((line[: seed + 1][::-1], line[seed:])):
            halves[int(batch.seed_number[i]), side] = half, int(batch.stop_reasons[i, side])
    return halves


def test_where_halves_end_in_subcortical_grey_matter(head):
    """As the choices of MRtrix3's -sgm_truncation say; both draws are uniform, given the chances of the points."""
    rng = np.random.default_rng(4)
    seeds = np.column_stack([rng.uniform(14, 24, 500), rng.uniform(4, 12, 500), rng.uniform(6, 24, 500)])
    more = {"dg": "ifod1", "seed_mask": None, "nseeds": None, "seeds": seeds, "keep": "all", "min_length": 0}
    asked = dict(zip(CUTS, CUTS, strict=True)) | {"minimum": None}  # which is the default
    runs = {cut: halves_of(tracked(head, sgm_truncation=value, **more)) for cut, value in asked.items()}
    fod, drawn = straight_fod()[0, 0, 0], {"random": [], "roulette": []}
    for key, (whole, reason) in runs["exit"].items():
        if reason == Stop.LEFT_SUBCORTEX:
            ends = {cut: len(halves[key][0]) - 1 if key in halves else 0 for cut, halves in runs.items()}
            first, last = ends["entry"], ends["exit"]
            for cut, end in ends.items():
                assert first + (cut in ("minimum", "roulette")) <= end <= last
                np.testing.assert_array_equal(runs[cut].get(key, (whole[:1],))[0], whole[: end + 1])
            values = sampling_matrix(unit(np.diff(whole[first:], axis=0)), 4, "tournier07") @ fod
            assert ends["minimum"] == first + 1 + int(np.argmin(values))
            steps, chances = last - first, np.exp(1 - values / 0.05)
            back = np.clip([last - ends["random"] - 0.5, last - ends["random"] + 0.5], 0, steps) / steps
            sums = np.concatenate([[0], np.cumsum(chances)]) / chances.sum()
            place = ends["roulette"] - first
            drawn["random"].append(rng.uniform(*back))
            drawn["roulette"].append(rng.uniform(sums[place - 1], sums[place]))
    assert all(len(shares) > 100 and kstest(shares, "uniform").pvalue > 1e-3 for shares in drawn.values())


def test_a_seed_beyond_the_interface_goes_one_way(head):
    """Its streamline begins at the seed, and the other half is not grown."""
    tissues = nib.load(head / "5tt.nii.gz").get_fdata()[:, 8, 8]
    excess = tissues[:, 0] + tissues[:, 1] - tissues[:, 2]
    before = 22 + int(np.argmax(excess[22:] > 0)) - 1
    x = before + (0.005 - excess[before]) / (excess[before + 1] - excess[before])
    seeds = np.column_stack([np.full(50, 2 * x), np.linspace(6, 24, 50), np.full(50, 16.0)])
    kept = tracked(head, seed_mask=None, nseeds=None, seeds=seeds, keep="all", min_length=0)
    batch = ts.Batch.concatenate(list(kept.batches))
    assert len(batch) > 20
    assert ((batch.stop_reasons == Stop.NOT_GROWN).sum(axis=1) == 1).mean() > 0.9
    for i, line in enumerate(batch):
        seed, other = (line[0], line[-1]) if batch.stop_reasons[i, 0] == Stop.NOT_GROWN else (line[-1], line[0])
        if Stop.NOT_GROWN in batch.stop_reasons[i]:
            np.testing.assert_allclose(seed, batch.seeds[i], atol=1e-4)
            assert other[0] < seed[0] + 2.0


@pytest.mark.parametrize("more", [{}, RECOVERED], ids=["plain", "recovered"])
def test_chunks_and_threads_do_not_matter(head, more):
    runs = [
        tracked(head, keep="all", min_length=0, nseeds=300, **more, **cut)
        for cut in ({}, {"chunk_size": 37, "threads": 1})
    ]
    for name in ("points", "stop_reasons"):
        np.testing.assert_array_equal(*(getattr(ts.Batch.concatenate(list(run.batches)), name) for run in runs))


def test_a_streamline_ends_with_the_last_of_its_regions(head):
    """Two regions that one half passes, one after the other; without the option, streamlines go on to the cortex."""
    seeds = np.column_stack([np.full(60, 36.0), np.linspace(19, 23, 60), np.full(60, 16.0)])
    regions = [f"{x},21,16,6" for x in (40, 48)]
    common = {"seed_mask": None, "nseeds": None, "seeds": seeds, "keep": "all", "min_length": 0, "include": regions}
    kept = tracked(head, stop_when_included=True, **common)
    batch = ts.Batch.concatenate(list(kept.batches))
    assert len(batch) > 20
    np.testing.assert_array_equal((batch.stop_reasons == Stop.ALL_INCLUDED).any(axis=1), True)
    assert max(line[:, 0].max() for line in batch) < 44  # a point of the second region is enough
    assert tracked(head, **common).mean_mm > kept.mean_mm


@pytest.mark.skipif(not shutil.which("tckgen"), reason="no MRtrix3")
@pytest.mark.parametrize(("dg", "algorithm", "backtrack", "one_way"), [
    ("ifod1", "iFOD1", False, False), ("ifod2", "iFOD2", True, False), ("sd_stream", "SD_Stream", False, False),
    ("ifod2", "iFOD2", False, True), *at_night(("ifod1", "iFOD1", True, False), ("ifod2", "iFOD2", False, False)),
])
def test_as_many_are_accepted_as_by_tckgen(head, tmp_path, dg, algorithm, backtrack, one_way):
    """Within three standard errors; the seeds are drawn in the whole image by both."""
    count = 600 if backtrack else 1500
    words = ["tckgen", "-quiet", "-nthreads", 0, "-algorithm", algorithm, "-act", head / "5tt.nii.gz", "-seeds", count,
             "-seed_image", head / "mask.nii.gz", "-select", 0, head / "fod.nii.gz", tmp_path / "t.tck"]
    words += ["-backtrack"] * backtrack + ["-seed_unidirectional"] * one_way
    subprocess.run(list(map(str, words)), check=True, env=os.environ | {"MRTRIX_RNG_SEED": "1"})
    theirs = [np.asarray(line) for line in nib.streamlines.load(tmp_path / "t.tck").streamlines]
    more = {"backtrack": True} if backtrack else {}  # with sd_stream the option is refused
    ours = tracked(head, dg=dg, nseeds=count, max_steps=None, max_length=200, one_way=one_way, **more)
    error = 3 * np.sqrt(2 * len(theirs) * (1 - len(theirs) / count))
    assert abs(ours.n_streamlines - len(theirs)) < error + 0.01 * count
    lengths = [float(np.linalg.norm(np.diff(line, axis=0), axis=1).sum()) for line in theirs]
    assert abs(ours.mean_mm - np.mean(lengths)) < 3 * np.std(lengths) * np.sqrt(2 / len(lengths))


@pytest.mark.parametrize(
    ("shape", "words"),
    [((4, 4, 4), "only 0 and 1, as a mask"), ((4, 4, 4, 3), "four axes and five volumes")],
)
def test_what_is_no_image_of_five_tissues_is_refused(head, tmp_path, shape, words):
    path = tmp_path / "no.nii.gz"
    nib.save(nib.Nifti1Image(np.ones(shape, np.float32), np.eye(4)), path)
    with pytest.raises(TrackingError, match=words):
        tracked(head, act=path)


def test_the_rule_needs_its_image(head):
    with pytest.raises(TrackingError, match="stopping act5 needs"):
        tracked(head, act=None, stopping="act5")


@pytest.mark.parametrize(("options", "words"), [
    ({"act": "5tt.nii"}, r"^5tt\.nii: has no white matter"),
    ({"stopping": "act5", "pve_wm": "w.nii", "pve_gm": "g.nii", "pve_csf": "c.nii"}, "^w.nii, g.nii, c.nii: leave no"),
])
def test_images_without_white_matter_are_named(options, words):
    grey = np.zeros((2, 2, 2, 5), np.float32)
    grey[..., 0] = 1
    with pytest.raises(ts.InputError, match=words):
        prepare({"act": MapImage(grey, np.eye(4))}, list, ts.Parameters.given(options), (1.0, 1.0, 1.0))
