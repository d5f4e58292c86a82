"""``track`` and ``stream`` on arrays and images in memory give what they give on files of the same values."""

import ast
import inspect
import json
import re
from collections.abc import KeysView
from dataclasses import fields
from pathlib import Path
from xml.etree import ElementTree

import nibabel as nib
import numpy as np
import pytest
from dipy.core.gradients import gradient_table
from dipy.io.utils import Space as Frame

import tistreamlines as ts
from tistreamlines.options import objects
from tistreamlines.options.definitions import join_options, names_in_memory, options
from tistreamlines.options.objects import MADE, TABLES
from tistreamlines.run import plan
from tistreamlines.space.sphere import load_sphere

TABLE = gradient_table(np.array([0, 1000]), bvecs=np.array([[0, 0, 0], [0, 0, 1]]))
GTAB = object()  # stands for the gradient table of the head
COMMON = {"nseeds": 60, "arch": "cpu"}


class Given:
    """The head as arrays, and files of the same arrays."""

    def __init__(self, head, folder):
        phantom, rng = head.phantom, np.random.default_rng(0)
        self.series, self.folder, self.affine = head.series, folder, phantom.affine
        self.dwi = np.asarray(nib.load(head.series[0]).dataobj)
        self.bvals, self.bvecs = np.loadtxt(head.series[1]), np.loadtxt(head.series[2])
        self.gtab = gradient_table(self.bvals, bvecs=self.bvecs)
        white = np.sum([bundle.membership for bundle in phantom.bundles], axis=0, dtype=np.float32)
        vertices = load_sphere("default")[0]
        peak = np.zeros((*white.shape, 3), np.float32)
        for bundle in phantom.bundles:
            peak[bundle.membership > 0.3] = rng.normal([0, 3, 0])
        along = np.abs(np.einsum("...i,vi->...v", peak, vertices)).astype(np.float32)
        sh = np.zeros((*white.shape, 15), np.float32)
        sh[..., 0], sh[..., 3] = white, 0.3 * white
        self.arrays = {
            "mask": phantom.mask, "seed_mask": white > 0.6, "stop_map": white, "peaks": peak, "odf": along,
            "pmf": along**4, "sh": sh,
        }
        inside = np.argwhere(white > 0.6)[::40]
        self.seeds = nib.affines.apply_affine(self.affine, inside + rng.uniform(-0.4, 0.4, inside.shape))
        np.save(folder / "seeds.npy", self.seeds)
        for name, array in self.arrays.items():
            values = array.astype(np.uint8) if array.dtype == bool else array
            nib.save(nib.Nifti1Image(values, self.affine), folder / f"{name}.nii.gz")

    def files(self, *names):
        return {name: self.folder / f"{name}.nii.gz" for name in names}

    def memory(self, *names):
        return {name: self.arrays[name] for name in names}


@pytest.fixture(scope="module")
def inputs(head, tmp_path_factory):
    return Given(head, tmp_path_factory.mktemp("given"))


@pytest.fixture(scope="module")
def result(inputs):
    return ts.track(*inputs.series, **inputs.files("mask"), nseeds=1500, arch="cpu")


@pytest.fixture(scope="module")
def batch(inputs):
    (batch,) = ts.stream(*inputs.series, **inputs.files("mask"), **COMMON)
    return batch


def points(result):
    assert result.n_streamlines > 20
    return ts.Batch.concatenate(result.batches).points


class TestSameBits:
    @pytest.mark.parametrize("kind", ["gtab", "arrays", "columns", "image"])
    def test_series(self, inputs, kind):
        dwi, gradients = inputs.dwi, {"bvals": inputs.bvals, "bvecs": inputs.bvecs}
        if kind == "gtab":
            gradients = {"gtab": inputs.gtab}
        elif kind == "columns":
            gradients["bvecs"] = inputs.bvecs.T
        affine = inputs.affine
        if kind == "image":
            dwi, affine = nib.load(inputs.series[0]), None
        ours = ts.track(dwi, **gradients, affine=affine, **inputs.memory("mask"), **COMMON)
        files = ts.track(*inputs.series, **inputs.files("mask"), **COMMON)
        assert np.array_equal(points(ours), points(files))
        assert not np.array_equal(points(files)[:500], points(ts.track(*inputs.series, rng_seed=1, **COMMON))[:500])

    @pytest.mark.parametrize(
        ("source", "more"),
        [
            ("sh", {"sh_basis": "descoteaux07"}), ("odf", {}), ("pmf", {}), ("peaks", {"peaks_frame": "voxel"}),
            ("peaks", {"peaks_frame": "scanner"}),
        ],
    )
    @pytest.mark.parametrize("seeded", ["seeds", "seed_mask"])
    def test_orientations(self, inputs, source, more, seeded):
        names = (source, "stop_map", *(["seed_mask"] if seeded == "seed_mask" else []))
        more = {**more, "arch": "cpu"} | ({} if seeded == "seeds" else {"nseeds": 100})
        (in_memory, seeds_file) = ({}, {}) if seeded != "seeds" else (
            {"seeds": inputs.seeds}, {"seeds": inputs.folder / "seeds.npy"}
        )
        ours = ts.track(**inputs.memory(*names), **in_memory, affine=inputs.affine, **more)
        assert np.array_equal(points(ours), points(ts.track(**inputs.files(*names), **seeds_file, **more)))

    def test_arrays_lie_on_the_grid_of_the_images_beside_them(self, inputs):
        expected = points(ts.track(*inputs.series, **inputs.files("mask", "stop_map"), **COMMON))
        beside_a_file = ts.track(*inputs.series, **inputs.memory("mask", "stop_map"), **COMMON)
        image = nib.Nifti1Image(inputs.arrays["stop_map"], inputs.affine)
        mask = inputs.arrays["mask"]
        beside_an_image = ts.track(inputs.dwi, gtab=inputs.gtab, mask=mask, stop_map=image, **COMMON)
        assert np.array_equal(points(beside_a_file), expected)
        assert np.array_equal(points(beside_an_image), expected)

    def test_the_cache_keeps_what_came_of_arrays(self, inputs, tmp_path, monkeypatch):
        def tracked(**changes):
            series = {"dwi": inputs.dwi, "gtab": inputs.gtab, "affine": inputs.affine}
            return points(ts.track(**series | inputs.memory("mask") | changes, cache_dir=tmp_path, **COMMON))

        first = tracked()
        monkeypatch.setattr(plan, "read", None)
        assert np.array_equal(tracked(), first)
        for changed in ({"mask": np.ones_like(inputs.arrays["mask"])}, {"affine": 2 * inputs.affine}):
            with pytest.raises(TypeError):  # nothing is kept for other values: the inputs would be read
                tracked(**changed)

    def test_the_record_names_them(self, inputs, tmp_path):
        result = ts.track(
            inputs.dwi, output=tmp_path / "a.tck", gtab=inputs.gtab, affine=inputs.affine, **inputs.memory("mask"),
            **COMMON,
        )
        record = json.loads((tmp_path / "a.json").read_text())
        assert {row["path"] for row in record["inputs"].values()} == {
            f"{name} (in memory)" for name in ("dwi", "gtab", "mask")
        }
        assert record["parameters"]["mask"] == "mask (in memory)"
        assert record["result"] == result.as_dict()


class TestParameters:
    def test_keywords_override(self, inputs):
        base = ts.Parameters(dg="prob", max_angle=30, nseeds=60, mask=inputs.arrays["mask"])
        changed = ts.track(*inputs.series, parameters=base, dg="boot", arch="cpu").parameters
        assert (changed.dg, changed.model, changed.max_angle, changed.nseeds) == ("boot", "csa", 30, 60)
        assert base.dg == "prob"
        assert str(changed.mask) == "mask (in memory)"
        with pytest.raises(ts.ParameterError, match="exclude each other"):
            ts.track(*inputs.series, parameters=base, seeds=inputs.seeds)

    def test_an_editor_knows_every_keyword(self):
        """``Options`` has the fields of ``Parameters``, with their types or their words, in the order of the help.

        Those of products come first, since ``map`` and ``join`` have them, too.
        """
        types = {f.name: str(f.type).removesuffix(" | None") for f in fields(ts.Parameters)}
        words = {name: option.choices for name, option in options().items() if not isinstance(option.choices, KeysView)}
        types |= {name: f"{types[name]} | Choice" for name in TABLES if name != MADE} | {MADE: "Sequence[Product]"}
        expected = {
            name: f"Literal[{', '.join(map(repr, words[name]))}]" if words.get(name) else types[name]
            for name in (*options(), MADE)
        }
        stub = ast.parse(Path(objects.__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
        classes = {row.name: row.body[1:] for row in stub if isinstance(row, ast.ClassDef)}  # without the docstring
        rows = [*classes["ProductOptions"], *classes["Options"]]
        said = {row.target.id: ast.unparse(row.annotation) for row in rows}
        assert said == {name: f"{row} | None" for name, row in expected.items()}
        assert list(said) == sorted(expected, key=lambda name: name not in join_options())
        for function in (ts.track, ts.stream):
            shown = inspect.signature(function).parameters
            assert list(shown)[-len(expected) :] == list(expected)
            assert all(shown[name].default == getattr(ts.Parameters, name, None) for name in expected)


class TestRefused:
    @pytest.mark.parametrize(
        ("wrong", "words"),
        [
            ({"mask": [[1, 2]]}, "^mask is a list: give a path, a nibabel image or a NumPy array$"),
            ({"dwi": [1]}, "^dwi is a list"),
            ({"bvals": GTAB, "bvecs": None, "gtab": None}, "^bvals is a GradientTable: give it as gtab"),
            ({"gtab": GTAB}, "^gtab takes the place of bvals and bvecs"),
            ({"bvals": None, "bvecs": None, "gtab": 3}, "^gtab is a int"),
            ({"bvecs": None}, "dwi and gtab"),
            ({"affine": None}, "^arrays .dwi. need affine"),
            ({"affine": np.eye(3)}, r"^affine is a ndarray of shape \(3, 3\)"),
            ({"affine": "a"}, "^affine is a str"),
            ({"output": 3}, "^output is a int"),
            ({"json_stats": np.ones(3)}, "^json_stats is a ndarray"),
            ({"json_stats": "a.json"}, "^json_stats needs an output"),
            ({"max_angle": 200}, "^max_angle is 200"),
        ],
    )
    def test_arguments(self, inputs, wrong, words):
        arguments = {"dwi": inputs.dwi, "bvals": inputs.bvals, "bvecs": inputs.bvecs, "affine": inputs.affine}
        wrong = {name: inputs.gtab if value is GTAB else value for name, value in wrong.items()}
        with pytest.raises(ts.ParameterError, match=words) as raised:
            ts.track(**(arguments | wrong))
        assert "\n" not in str(raised.value)
        if "output" not in wrong:
            with pytest.raises(ts.ParameterError, match=words):
                ts.stream(**(arguments | wrong))  # at the call, before the first batch is asked for

    def test_an_affine_that_nothing_needs(self, inputs):
        with pytest.raises(ts.ParameterError, match=r"^affine is for arrays"):
            ts.track(*inputs.series, affine=inputs.affine)

    @pytest.mark.parametrize(
        ("wrong", "words"),
        [
            ({"mask": np.ones((2, 3, 4))}, r"^mask \(in memory\): shape \(2, 3, 4\)"),
            ({"mask": np.ones((30, 36, 28), complex)}, r"^mask \(in memory\): data type complex128"),
            ({"mask": nib.Nifti1Image(np.ones((30, 36, 28), np.uint8), np.diag([1, 1, 1e-3, 1]))},
             r"^mask \(in memory\): has only zeros where"),
            ({"dwi": np.ones((30, 36, 28))}, r"^dwi \(in memory\): 3-D image"),
            ({"bvals": np.ones(5)}, r"^bvals \(in memory\): 5 b-values, but dwi \(in memory\) has"),
            ({"bvals": None, "bvecs": None, "gtab": TABLE}, r"^gtab \(in memory\): 2 b-values, but dwi "),
            ({"mask": np.full((30, 36, 28), None)}, r"^mask \(in memory\): data type object"),
            ({"bvals": np.array(["a"])}, r"^bvals \(in memory\): cannot be read"),
            ({"seeds": np.ones((4, 2))}, r"^seeds \(in memory\): .*shape \(4, 2\)"),
            ({"seeds": np.full((4, 3), np.nan)}, r"^seeds \(in memory\): seed 0"),
            ({"seeds": np.full((4, 3), 1e4)}, r"^seeds \(in memory\): as RASmm 4 of 4 seeds lie outside"),
        ],
    )
    def test_values(self, inputs, wrong, words):
        arguments = {"dwi": inputs.dwi, "bvals": inputs.bvals, "bvecs": inputs.bvecs, "affine": inputs.affine}
        with pytest.raises(ts.InputError, match=words):
            ts.track(**({**arguments, "mask": inputs.arrays["mask"], "arch": "cpu"} | wrong))

    @pytest.mark.parametrize("name", [
        "dwi", "bvals", "bvecs", "affine", "seeds", *(name for name in names_in_memory() if name != "seeds"),
        "image", "several",
    ])
    def test_masked_values(self, inputs, name):
        """NumPy forgets the mask of an array that is converted; one without masked values is taken as it is."""
        known = {"dwi": inputs.dwi, "bvals": inputs.bvals, "bvecs": inputs.bvecs, "affine": inputs.affine}
        values = {**known, "seeds": inputs.seeds}.get(name, inputs.arrays["mask"].astype(np.float32))
        holed = np.ma.masked_array(values, np.zeros(np.shape(values), bool))
        holed.mask.flat[0] = True
        for part, masked in (("1 masked", holed), ("all", np.ma.masked_all_like(values))):
            value = {
                "image": lambda array: nib.Nifti1Image(array, inputs.affine), "several": lambda array: [values, array],
                "connectome": lambda array: (array, "out.csv"), "seed_matrix": lambda array: (array, "out.npz"),
                "seeds_to_targets": lambda array: (array, "out.csv"),
                "voxel_matrix": lambda array: (array, "out.npz"), "sift2": lambda array: (array, "out.txt"),
            }.get(name, lambda array: array)(masked)
            option = {"image": "mask", "several": "exclude"}.get(name, name)
            words = rf"^{option} is a masked array .* with \.filled\(value\)"
            with pytest.raises(ts.ParameterError, match=words) as raised:
                ts.track(**{**known, option: value}) if option in known else ts.Parameters(**{option: value})
            assert "\n" not in str(raised.value)
            assert part == "all" or "with 1 masked value:" in str(raised.value)

    def test_masked_arrays_without_masked_values(self, inputs):
        plain = {"dwi": inputs.dwi, "bvals": inputs.bvals, "bvecs": inputs.bvecs, "mask": inputs.arrays["mask"],
                 "stop_map": inputs.arrays["stop_map"], "seeds": inputs.seeds}
        masked = {name: np.ma.masked_array(value) for name, value in plain.items()}
        result, expected = (ts.track(**arrays, affine=inputs.affine, arch="cpu") for arrays in (masked, plain))
        assert np.array_equal(points(result), points(expected))

    def test_an_image_whose_file_was_cut(self, inputs, tmp_path):
        path = tmp_path / "mask.nii.gz"
        path.write_bytes((inputs.folder / "mask.nii.gz").read_bytes())
        image = nib.load(path)
        path.write_bytes(path.read_bytes()[:300])
        with pytest.raises(ts.InputError, match=r"^mask \(in memory\): cannot be read"):
            ts.track(*inputs.series, mask=image, arch="cpu")


class TestResult:
    def test_it_sums_up_the_batches(self, inputs, result):
        lines = [line for batch in result.batches for line in batch]
        assert result.n_streamlines == len(lines)
        assert result.points == sum(map(len, lines))
        assert result.median_points == np.median([len(line) for line in lines])
        assert result.seconds["total"] > result.seconds["track"] > 0
        assert (result.arch, result.seeds, result.path) == ("cpu", 1500, None)
        assert sum(result.stop_reasons.values()) >= 2 * len(lines)
        assert 500 < len(np.unique(result.sample.seed_number)) <= 1000
        streamed = ts.stream(*inputs.series, **inputs.files("mask"), nseeds=1500, arch="cpu", chunk_size=400)
        assert np.array_equal(ts.Batch.concatenate(streamed).points, points(result))

    @pytest.mark.parametrize("suffix", ["", ".trx", ".trk", ".tck"])
    def test_to_sft(self, inputs, result, suffix, tmp_path):
        path = tmp_path / f"a{suffix}" if suffix else None
        same = ts.track(*inputs.series, path, **inputs.files("mask"), nseeds=1500, arch="cpu") if suffix else result
        assert same.path == path
        sft = same.to_sft()
        assert sft.space == Frame.RASMM
        assert np.allclose(sft.affine, inputs.affine)
        assert np.abs(sft.streamlines.get_data() - points(result)).max() < 1e-3
        assert suffix == ".tck" or np.array_equal(
            sft.data_per_streamline["seed_number"][:, 0], ts.Batch.concatenate(result.batches).seed_number
        )
        if path:
            path.unlink()
            with pytest.raises(ts.InputError, match="no such file"):
                same.to_sft()

    def test_in_a_line(self, result):
        assert re.fullmatch(r"<TrackResult: [\d,]+ streamlines from 1,500 seeds, [\d.]+ mm .* in memory>", repr(result))

    def test_in_a_notebook(self, inputs, tmp_path):
        path = tmp_path / "a<b>&.trx"
        shown = ts.track(*inputs.series, path, **inputs.files("mask"), **COMMON)._repr_html_()
        page = ElementTree.fromstring(f"<p>{shown}</p>".replace("></p>", "/></p>"))
        rows = {row.find("th").text: row.find("td").text for row in page.iter("tr")}
        assert rows["seeds"] == "60"
        assert rows["tractogram"] == str(path)
        assert page.find("img").get("src").startswith("data:image/png;base64,iVBOR")
        assert not re.search(r"https?:|<script", shown)
        assert len(shown) < 1_000_000

    def test_of_no_streamline(self, inputs):
        nothing = ts.track(*inputs.series, **inputs.files("mask"), **COMMON, min_length=1e6)
        assert nothing.n_streamlines == len(nothing.to_sft()) == 0
        assert "<img" in nothing._repr_html_()


class TestBatch:
    def test_it_is_a_sequence(self, batch):
        lines = np.split(batch.points, batch.offsets[1:-1])
        assert len(batch) == len(lines) == len(list(batch)) > 20
        for i in (0, 5, -1, -len(lines)):
            assert np.array_equal(batch[i], lines[i])
        assert all(map(np.array_equal, batch, lines))
        for i in (len(lines), -len(lines) - 1):
            with pytest.raises(IndexError):
                batch[i]

    @pytest.mark.parametrize("index", [slice(3, 9), slice(None, None, -2), slice(0, 0), np.array([4, 1, 4])])
    def test_a_part_is_a_batch(self, batch, index):
        part, numbers = batch[index], np.arange(len(batch))[index]
        assert len(part) == len(numbers)
        assert all(np.array_equal(part[i], batch[n]) for i, n in enumerate(numbers))
        for name in ("seeds", "seed_number", "direction_number", "stop_reasons"):
            assert np.array_equal(getattr(part, name), getattr(batch, name)[index])

    def test_joined(self, batch):
        whole = ts.Batch.concatenate([batch[:4], batch[4:]])
        assert np.array_equal(whole.points, batch.points)
        assert np.array_equal(whole.offsets, batch.offsets)
        assert len(ts.Batch.concatenate([])) == 0

    def test_in_a_line(self, batch):
        assert repr(batch) == f"<Batch of {len(batch):,} streamlines, {len(batch.points):,} points>"


@pytest.mark.parametrize("function", [ts.track, ts.stream, ts.TrackResult.to_sft])
def test_docstrings_are_complete(function):
    """Every argument, and every section that numpydoc wants of a function that returns something and raises."""
    text = inspect.getdoc(function)
    for heading in ("Returns", "Raises"):
        assert f"\n{heading}\n{'-' * len(heading)}\n" in text
    for name in inspect.signature(function).parameters.keys() - {*options(), MADE, "self"}:
        assert re.search(rf"^.*\b{name}\b.*$", text.split("Raises")[0], re.MULTILINE)
