"""Runs with images that may lie elsewhere, lie elsewhere, or lie on another grid than the image that is tracked."""

import json
import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from head import make_head
from head import tracked as in_head
from small_runs import SHAPE, write_inputs

import tistreamlines as ts
from tistreamlines.errors import InputError, ParameterError

AFFINE = np.diag([2.0, 2.0, 2.0, 1.0])
TURN = nib.affines.from_matvec(nib.eulerangles.euler2mat(0.1, 0.05, -0.1), [0.3, 0.2, -0.4])
AWAY = nib.affines.from_matvec(np.eye(3), [500.0, 0, 0])


@pytest.fixture
def options(tmp_path):
    return write_inputs(tmp_path)


def image(values, affine=AFFINE):
    return nib.Nifti1Image(values, affine)


def unplaced(values):
    header = nib.Nifti1Header()
    header.set_data_shape(values.shape)
    header.set_zooms((4, 4, 4))
    return nib.Nifti1Image(values, None, header)


def inside():
    return np.pad(np.ones([size - 4 for size in SHAPE], np.float32), 2)


def finer():
    """The stop map on a grid that is finer and turned, and covers all."""
    affine = TURN @ np.diag([1.1, 1.1, 1.1, 1]) @ nib.affines.from_matvec(np.eye(3), [-9, -9, -9])
    shape = (50, 52, 48)
    places = nib.affines.apply_affine(np.linalg.inv(AFFINE) @ affine, np.moveaxis(np.indices(shape), 0, -1))
    within = ((places >= 1.5) & (places < np.array(SHAPE) - 2.5)).all(axis=-1)
    return image(within.astype(np.float32), affine)


# ------------------------------------------------------------------------------------------ where headers say they lie
INPUTS = {
    "peaks": lambda values: {"peaks": values},
    "stop_map": lambda values: {"stop_map": values},
    "seed_mask": lambda values: {"seed_mask": values, "seeds": None},
    "include": lambda values: {"include": values},
    "sample": lambda values: {"sample": values},
    "density_grid": lambda values: {"density": "d.nii.gz", "density_grid": values},
    "connectome": lambda values: {"connectome": (values, "c.csv")},
}


@pytest.mark.parametrize("name", INPUTS)
def test_every_input_that_contradicts_itself_is_warned_of_once(options, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    kept = nib.load(options["peaks"]) if name == "peaks" else image(inside())
    kept.set_sform(kept.affine, 1)
    kept.set_qform(TURN @ kept.affine, 1)
    nib.save(kept, tmp_path / "odd.nii")
    asked = INPUTS[name](tmp_path / "odd.nii")
    with pytest.warns(UserWarning, match="odd.nii: sform and qform place"):
        result = ts.track(output=tmp_path / "a.trx", **options | asked)
    assert sum("odd.nii: sform and qform place" in text for text in result.warnings) == 1
    assert json.loads((tmp_path / "a.json").read_text())["warnings"] == list(result.warnings)


def test_map_and_join_and_the_command_say_it_too(options, tmp_path, run):
    nib.save(unplaced(inside().astype(np.int16)), tmp_path / "lost.nii")
    ts.track(output=tmp_path / "a.trx", **options)
    done = run("map", tmp_path / "a.trx", "--connectome", tmp_path / "lost.nii", tmp_path / "c.csv")
    assert done.err.count("lost.nii: the header does not say where the image lies") == 1, done.err
    parts = [tmp_path / f"part{number}.trx" for number in (1, 2)]
    for number, part in enumerate(parts, 1):
        ts.track(output=part, part=f"{number}/2", **options)
    done = run("join", *parts, "-o", tmp_path / "b.trx", "--sample", tmp_path / "lost.nii")
    assert done.err.count("lost.nii: the header does not say where the image lies") == 1, done.err


def test_tables_from_the_cache_bring_no_warning_twice(options, tmp_path):
    nib.save(unplaced(inside()), tmp_path / "lost.nii")
    both = []
    for _ in range(2):
        with pytest.warns(UserWarning, match="does not say"):
            result = ts.track(**options, include=tmp_path / "lost.nii", cache_dir=tmp_path / "cache")
        both.append(result.warnings)
    assert both[0] == both[1]


# ------------------------------------------------------------------------------------------------- off the streamlines
@pytest.mark.parametrize("product", ["density", "ends", "sample", "sample_table", "density_sample"])
@pytest.mark.parametrize("through", ["track", "map", "join"])
def test_what_lies_off_all_streamlines_is_warned_of(options, tmp_path, product, through):
    nib.save(image(inside(), AWAY @ AFFINE), tmp_path / "away.nii")
    product_file, away = tmp_path / "made.nii.gz", tmp_path / "away.nii"
    asked = {
        "density": {"density": product_file, "density_grid": away},
        "ends": {"ends": product_file, "density_grid": away},
        "sample": {"sample": away}, "sample_table": {"sample": away, "sample_table": tmp_path / "made.tsv"},
        "density_sample": {"density": product_file, "density_kind": "sample", "density_sample": away},
    }[product]
    if through == "track":
        with pytest.warns(UserWarning, match=r"away.nii"):
            warnings = ts.track(output=tmp_path / "a.trx", **options, **asked).warnings
    elif through == "map":
        ts.track(output=tmp_path / "a.trx", **options)
        warnings = ts.map_tractogram(tmp_path / "a.trx", **asked | {"sample_table": tmp_path / "s.tsv"} if
                                 product == "sample" else asked)["warnings"]
    else:
        parts = [tmp_path / f"part{number}.trx" for number in (1, 2)]
        for number, part in enumerate(parts, 1):
            ts.track(output=part, part=f"{number}/2", **options)
        with pytest.warns(UserWarning, match=r"away.nii"):
            ts.join(parts, tmp_path / "b.trx", **asked)
        warnings = json.loads((tmp_path / "b.json").read_text())["warnings"]
    assert len(warnings) == 1, warnings
    assert "away.nii" in warnings[0]
    assert "the space of" in warnings[0] or "in their space" in warnings[0]


def test_maps_that_devices_count_are_warned_of_and_others_are_not(options, tmp_path):
    nib.save(image(inside(), AWAY @ AFFINE), tmp_path / "away.nii")
    grids = {"density": tmp_path / "d.nii.gz", "ends": tmp_path / "e.nii.gz"}
    with pytest.warns(UserWarning, match="is 0 everywhere"):
        result = ts.track(output=None, **options, **grids, density_grid=tmp_path / "away.nii")
    assert len(result.warnings) == 2
    options |= {"force": True, "sample": options["stop_map"]}
    assert not ts.track(output=tmp_path / "a.trx", **options, **grids, density_grid=image(inside())).warnings


def test_no_streamline_is_no_reason_to_doubt_a_grid(options, tmp_path):
    away = image(inside(), AWAY @ AFFINE)
    grids = {"density": tmp_path / "d.nii.gz", "density_grid": away, "sample": away}
    result = ts.track(output=tmp_path / "a.trx", **options, **grids, min_length="900mm")
    assert result.n_streamlines == 0
    assert not [text for text in result.warnings if "in memory" in text]


# ----------------------------------------------------------------------------------------------------- on another grid
def notes_of(result, word):
    return [text for text in result.notes if word in text]


def test_a_stop_map_on_another_grid_is_interpolated_with_a_note(options, tmp_path):
    nib.save(finer(), tmp_path / "finer.nii.gz")
    expected = ts.track(**options)
    result = ts.track(**options | {"stop_map": tmp_path / "finer.nii.gz", "stop_threshold": 0.5})
    (note,) = notes_of(result, "finer.nii.gz")
    assert "values are interpolated" in note
    assert "50 x 52 x 48 voxels of 1.1 x 1.1 x 1.1 mm" in note
    assert result.n_streamlines == expected.n_streamlines > 50
    lengths = [float(np.mean([len(line) for line in run])) for run in (expected, result)]
    assert lengths[1] == pytest.approx(lengths[0], rel=0.1)


@pytest.mark.skipif(shutil.which("mrtransform") is None, reason="mrtransform is not installed: install mrtrix3")
def test_resampling_by_mrtransform_gives_the_same_streamlines(options, tmp_path):
    rng = np.random.default_rng(5)
    nib.save(image(rng.uniform(0.2, 1, (50, 52, 48)).astype(np.float32), finer().affine), tmp_path / "own.nii")
    command = ["mrtransform", "own.nii", "-template", options["stop_map"], "-interp", "linear", "-oversample", "1"]
    subprocess.run([*command, "-quiet", "out.nii"], cwd=tmp_path, check=True)
    mine, theirs = (ts.track(**options | {"stop_map": tmp_path / name, "stop_threshold": 0.4}).to_sft().streamlines
                    for name in ("own.nii", "out.nii"))
    assert len(mine) == len(theirs) > 20
    assert sum(map(np.array_equal, mine, theirs)) >= len(mine) - 1  # a value may lie at the threshold


def test_masks_take_the_nearest_voxel(options):
    result = ts.track(**options | {"stop_map": None, "stopping": "binary", "stop_mask": finer()})
    (note,) = notes_of(result, "stop_mask (in memory)")
    assert "values are taken from the nearest voxel" in note
    assert len(result) > 50


def test_tissue_fractions_may_have_grids_of_their_own(options, tmp_path):
    white = finer()
    rest = np.asarray(white.dataobj)
    maps = {"pve_wm": white, "pve_gm": image(1 - rest, white.affine), "pve_csf": image(0 * inside())}
    result = ts.track(**options | {"stop_map": None, "stopping": "act", **maps})
    assert {text.split()[0] for text in result.notes if "another grid" in text} == {"pve_wm", "pve_gm"}
    assert len(result) > 50


def test_a_map_that_covers_a_part_says_how_much(options):
    part = image(inside()[:, :, :8])
    result = ts.track(**options | {"stop_map": part})
    (note,) = notes_of(result, "stop_map")
    assert "and 0 in the 43% that lies outside it" in note


def test_an_image_of_the_same_shape_elsewhere_is_warned_of(options):
    moved = nib.affines.from_matvec(np.eye(3), [4.0, 0, 0]) @ AFFINE
    with pytest.warns(UserWarning, match=r"If its voxels are those of .* its affine is wrong \(by 4 mm\)"):
        ts.track(**options | {"stop_map": image(inside(), moved)})


@pytest.mark.parametrize("asked", [
    lambda away: {"stop_map": away},
    lambda away: {"stop_map": None, "stopping": "binary", "stop_mask": away},
    lambda away: {"seeds": None, "seed_mask": away},
    lambda away: {"stop_map": None, "stopping": "act", "pve_wm": away, "pve_gm": away, "pve_csf": away},
])
def test_images_that_do_not_overlap_are_refused(options, asked):
    with pytest.raises((InputError, ParameterError), match=r"only zeros where|lies outside the image"):
        ts.track(**options | asked(image(inside(), AWAY @ AFFINE)))


def test_an_array_has_the_shape_of_the_series(options):
    with pytest.raises(InputError, match="give an array of that shape"):
        ts.track(**options | {"stop_map": inside().transpose(1, 0, 2)})


def test_a_five_tissue_image_that_does_not_overlap_is_refused(tmp_path):
    head = make_head(tmp_path)
    tissues = nib.load(head / "5tt.nii.gz")
    away = nib.Nifti1Image(np.asarray(tissues.dataobj), AWAY @ tissues.affine)
    with pytest.raises(InputError, match=r"act .*only zeros where the series or orientations lie"):
        in_head(head, act=away)
    near = nib.affines.from_matvec(np.eye(3), [58.0, 30, 30]) @ tissues.affine  # a corner is in common
    with pytest.raises(ParameterError, match="seed_gmwmi lies outside the image"):
        in_head(head, act=nib.Nifti1Image(np.asarray(tissues.dataobj), near), nseeds=10, seed_gmwmi=away,
                seed_mask=None)
