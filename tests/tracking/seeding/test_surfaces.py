"""Seeds on surfaces: spread uniformly by area, at vertices, in a mask, along normals; and runs with them."""

import json

import nibabel as nib
import numpy as np
import pytest
from meshes import fields, footer, icosphere, save_freesurfer, save_gifti
from scipy.stats import chi2_contingency, chisquare, kstest
from small_runs import write_inputs

import tistreamlines as ts
from tistreamlines.errors import InputError, ParameterError
from tistreamlines.io.images import silent
from tistreamlines.io.sidecar import sha256
from tistreamlines.io.surfaces import Surface
from tistreamlines.run import resume
from tistreamlines.tracking.seeding.directed import lengths_of, normals_of, senses_of
from tistreamlines.tracking.seeding.seeds import Draw
from tistreamlines.tracking.seeding.surfaces import AreaSeeds, SeedMask, surface_seeds

SHAPE = (20, 22, 18)
TURN = np.linalg.qr(np.random.default_rng(4).normal(size=(3, 3)))[0]
AFFINE = np.eye(4)
AFFINE[:3, :3], AFFINE[:3, 3] = TURN * [2.0, 1.5, 2.5], [-30, 12, 5]
SPACE = ts.Space(AFFINE, SHAPE)
CENTRE = SPACE.to_ras(np.array([9.5, 10.5, 8.5]))
STRETCH = np.array([1.0, 0.6, 0.8])  # the ball becomes an ellipsoid, whose triangles differ in size
VERTICES, TRIANGLES = icosphere(2, 12.0)
EGG = VERTICES * STRETCH + CENTRE


def moved(points, x=0.0, y=0.0):
    return points + np.array([x, y, 0])


def heron(vertices, triangles):
    """Areas of triangles by the lengths of their sides."""
    corners = vertices[triangles]
    a, b, c = np.linalg.norm(corners - np.roll(corners, 1, axis=1), axis=2).T
    half = (a + b + c) / 2
    return np.sqrt(half * (half - a) * (half - b) * (half - c))


def shares(points, vertices, triangles):
    """The triangle in which each point lies, and its barycentric coordinates there."""
    which, parts = np.full(len(points), -1), np.full((len(points), 3), np.nan)
    for number, corners in enumerate(vertices[triangles]):
        edges = (corners[1:] - corners[0]).T
        matrix = np.column_stack([edges, np.cross(*edges.T)])
        u, v, away = np.linalg.solve(matrix, (points - corners[0]).T)
        here = (np.abs(away) < 1e-9) & (u > -1e-9) & (v > -1e-9) & (u + v < 1 + 1e-9)
        which[here], parts[here] = number, np.stack([1 - u - v, u, v], axis=1)[here]
    return which, parts


def egg(count=20_000, key=3, threads=None, mask=None):
    return AreaSeeds(EGG, TRIANGLES, None, SPACE, Draw(count, key, threads), mask)


def numbered(seeds):
    """All points, which depend on their numbers alone."""
    whole = seeds.points(0, seeds.count + 5)
    assert whole.shape == (seeds.count, 3)
    assert np.array_equal(np.concatenate([seeds.points(first, 617) for first in range(0, seeds.count, 617)]), whole)
    return whole


def reached(seeds):
    """The voxels that interpolation at the seeds in the image reads are among those that it reads around the reach."""
    points = seeds.points(0, seeds.count)
    points = points[((points >= -0.5) & (points < np.array(SHAPE) - 0.5)).all(axis=1)]
    read, around = ({tuple(cell) for cell in np.floor(places).astype(int)} for places in (points, seeds.reach()))
    return read <= around


class TestByArea:
    def test_areas(self):
        """Of an icosahedron, 5 sqrt(3) a^2 with edges a; of an ellipsoid, against Heron's formula."""
        solid = icosphere(0)
        edge = np.linalg.norm(np.subtract(*solid[0][solid[1][0, :2]]))
        assert lengths_of(normals_of(*solid)).sum() / 2 == pytest.approx(5 * 3**0.5 * edge**2)
        np.testing.assert_allclose(lengths_of(normals_of(EGG, TRIANGLES)) / 2, heron(EGG, TRIANGLES), rtol=1e-9)

    def test_they_are_uniform(self):
        points = SPACE.to_ras(numbered(egg()))
        which, parts = shares(points, EGG, TRIANGLES)
        assert (which >= 0).all()
        areas = heron(EGG, TRIANGLES)
        assert areas.max() > 1.5 * areas.min()
        counts = np.bincount(which, minlength=len(TRIANGLES))
        assert chisquare(counts, areas / areas.sum() * len(points)).pvalue > 1e-3
        assert chisquare(counts).pvalue < 1e-9  # the test can tell
        for part in parts.T:  # of points that are uniform in a triangle
            assert kstest(part, lambda share: 1 - (1 - share) ** 2).pvalue > 1e-3
        assert len(np.unique(points, axis=0)) == len(points)
        assert np.array_equal(egg(700_000, threads=1).points(0, 20_000), egg().points(0, 20_000))
        assert not np.isin(egg(key=4).points(0, 50), egg().points(0, 20_000)).any()

    def test_several_surfaces_share_the_seeds_by_area(self, tmp_path):
        """An empty and a degenerate triangle get none."""
        small = moved(icosphere(2, 4.0)[0] + CENTRE, x=10)
        extra = np.concatenate([TRIANGLES, [[0, 1, 1], [5, 5, 5]]])
        paths = [save_gifti(tmp_path / "a.gii", EGG, extra), save_gifti(tmp_path / "b.gii", small, TRIANGLES)]
        seeds = surface_seeds(paths, SPACE, Draw(20_000, 0))
        points = SPACE.to_ras(numbered(seeds))
        on_small = np.abs(np.linalg.norm(moved(points, x=-10) - CENTRE, axis=1) - 4) < 0.2
        areas = np.array([heron(EGG, TRIANGLES).sum(), heron(small, TRIANGLES).sum()])
        counts = np.array([(~on_small).sum(), on_small.sum()])
        assert chisquare(counts, areas / areas.sum() * 20_000).pvalue > 1e-3
        assert reached(seeds)

    def test_what_is_read_is_in_reach(self):
        seeds = egg()
        assert reached(seeds)
        assert len(seeds.reach()) < 0.3 * np.prod(SHAPE)
        large = AreaSeeds(EGG, icosphere(0)[1], None, SPACE, Draw(20_000, 0))  # triangles of many voxels
        assert reached(large)
        assert reached(AreaSeeds(moved(EGG, y=12), TRIANGLES, None, SPACE, Draw(20_000, 0)))  # partly outside


class TestMasks:
    @pytest.mark.parametrize("on_another_grid", [False, True])
    def test_they_are_those_of_the_surface_in_the_mask(self, on_another_grid):
        """Spread over the triangles as the seeds of the whole surface that lie in the mask."""
        affine = nib.affines.from_matvec(np.diag([3.0, 4, 5]), CENTRE - 30)
        space = ts.Space(affine, (20, 15, 12)) if on_another_grid else SPACE
        inside = np.random.default_rng(1).random(space.shape) < 0.3
        mask = SeedMask(inside, space)
        seeds = egg(8000, key=5, mask=mask)
        points, others = SPACE.to_ras(numbered(seeds)), SPACE.to_ras(egg(60_000).points(0, 60_000))

        def held(there):
            voxels = np.rint(space.to_voxel(there)).astype(int)
            within = ((voxels >= 0) & (voxels < space.shape)).all(axis=1)
            return within & inside[tuple(np.where(within[:, None], voxels, 0).T)]

        assert held(points).all()
        which = (shares(chosen, EGG, TRIANGLES)[0] for chosen in (points, others[held(others)]))
        counts = np.array([np.bincount(chosen, minlength=len(TRIANGLES)) for chosen in which])
        counts = counts[:, counts.sum(axis=0) > 20]
        assert counts.shape[1] > 30
        assert chi2_contingency(counts).pvalue > 1e-3

    def test_boxes_that_touch_it(self):
        rng = np.random.default_rng(2)
        mask = SeedMask(rng.random((5, 6, 7)) < 0.05, ts.Space(np.eye(4), (5, 6, 7)))
        low = rng.uniform(-3, 9, (500, 3))
        high = low + rng.exponential(1, (500, 3))
        expected = []
        for first, last in zip(np.rint(low).astype(int), np.rint(high).astype(int), strict=True):
            there = tuple(slice(max(a, 0), max(b + 1, 0)) for a, b in zip(first, last, strict=True))
            expected.append(mask.inside[there].any())
        assert 20 < sum(expected) < 480
        assert np.array_equal(mask.touches(low, high), expected)

    def test_no_part_in_it(self, tmp_path):
        path = save_gifti(tmp_path / "a.gii", EGG, TRIANGLES)
        mask = SeedMask(np.pad(np.ones((1, 1, 1), bool), 1), SPACE)
        for each, what in ((None, "part"), (1, "vertex")):
            with pytest.raises(InputError, match=f"no {what} of seed_surface lies in seed_mask"):
                surface_seeds([path], SPACE, Draw(10, 0), each=each, mask=mask)


class TestAtVertices:
    def test_each_has_its_number(self, tmp_path):
        paths = [save_gifti(tmp_path / f"{i}.gii", moved(EGG, x=i), TRIANGLES) for i in range(2)]
        seeds = surface_seeds(paths, SPACE, Draw(7, 0), each=3)
        points = SPACE.to_ras(numbered(seeds))
        both = np.concatenate([EGG, moved(EGG, x=1)])
        assert np.abs(points - np.tile(both, (3, 1))).max() < 1e-5
        assert reached(seeds)

    def test_those_in_a_mask_and_without_triangles(self, tmp_path):
        half = np.indices(SHAPE)[0] < 9
        path = save_gifti(tmp_path / "points.gii", EGG)
        seeds = surface_seeds([path], SPACE, Draw(7, 0), each=1, mask=SeedMask(half, SPACE))
        expected = EGG[SPACE.to_voxel(EGG)[:, 0] < 8.5]
        assert 20 < len(expected) < 140
        assert np.abs(SPACE.to_ras(numbered(seeds)) - expected).max() < 1e-5
        for options in ({}, {"each": 1, "direction": "normal"}):
            with pytest.raises(InputError, match=r"points\.gii: has no triangles, and so neither area nor normals"):
                surface_seeds([path], SPACE, Draw(7, 0), **options)


def scanner_directions(seeds):
    """Directions of seeds along the axes of RASmm."""
    along = seeds.directions(0, seeds.count) / SPACE.voxel_sizes @ AFFINE[:3, :3].T
    return along / np.linalg.norm(along, axis=1, keepdims=True)


class TestDirections:
    @pytest.mark.parametrize("each", [None, 2])
    @pytest.mark.parametrize("turned", [False, True])
    def test_normals_point_out_of_a_closed_surface(self, tmp_path, each, turned):
        """Those of an ellipsoid are along (x, y, z) / (a, b, c)^2; triangles the wrong way round are turned."""
        notes, fine = [], icosphere(4, 12.0)
        path = save_gifti(tmp_path / "a.gii", fine[0] * STRETCH + CENTRE, fine[1][:, ::-1] if turned else fine[1])
        for direction, sense in (("normal", 1), ("inward", -1)):
            seeds = surface_seeds([path], SPACE, Draw(2000, 0), direction=direction, each=each, note=notes.append)
            ours = scanner_directions(seeds)
            exact = (SPACE.to_ras(seeds.points(0, seeds.count)) - CENTRE) / STRETCH**2
            exact /= np.linalg.norm(exact, axis=1, keepdims=True)
            assert np.degrees(np.arccos(np.clip(sense * (ours * exact).sum(axis=1), -1, 1))).max() < 8
            assert np.array_equal(seeds.directions(700, 5), seeds.directions(0, 2000)[700:705])
            points, along = seeds.sample(np.arange(5, 10))
            assert np.array_equal(points, seeds.points(5, 5))
            assert np.array_equal(along, seeds.directions(5, 5))
        assert sum("clockwise seen from outside" in note for note in notes) == 2 * turned

    def test_free_seeds_have_none(self, tmp_path):
        path = save_gifti(tmp_path / "a.gii", EGG, TRIANGLES)
        assert all(surface_seeds([path], SPACE, Draw(9, 0), each=each).directions(0, 9) is None for each in (None, 1))

    def test_open_and_inconsistent_surfaces(self):
        warnings = []
        half = TRIANGLES[:100]
        assert (senses_of(Surface(EGG, half, "a.gii"), silent, warnings.append) == 1).all()
        assert len(warnings) == 1
        assert "a.gii: is not closed" in warnings[0]
        torn = TRIANGLES.copy()
        torn[7] = torn[7, ::-1]
        with pytest.raises(InputError, match=r"a\.gii: two triangles pass the edge from vertex \d+ to \d+ in the same"):
            senses_of(Surface(EGG, torn, "a.gii"), silent, silent)
        assert (senses_of(Surface(EGG, np.append(TRIANGLES, [[1, 1, 2]], axis=0), "a.gii"), silent, silent) == 1).all()

    def test_a_vertex_without_a_normal(self, tmp_path):
        path = save_gifti(tmp_path / "a.gii", np.append(EGG, [CENTRE], axis=0), TRIANGLES)
        with pytest.raises(InputError, match=r"1 vertices have no normal, the first of which is at \["):
            surface_seeds([path], SPACE, Draw(9, 0), each=1, direction="inward")


class TestPlaces:
    def test_outside(self, tmp_path):
        """A part outside is a warning with its share, most of it an error."""
        warnings = []
        path = save_gifti(tmp_path / "a.gii", EGG + TURN[:, 1] * 14, TRIANGLES)
        surface_seeds([path], SPACE, Draw(9, 0), warn=warnings.append)
        away = int(((SPACE.to_voxel(EGG + TURN[:, 1] * 14) > np.array(SHAPE) - 0.5).any(axis=1)).sum())
        warning = f"{away} of 162 vertices lie outside the image ({away / 162:.1%}), and no streamline starts there"
        assert warnings == [f"{path}: {warning}"]
        path = save_gifti(tmp_path / "b.gii", moved(EGG, x=60), TRIANGLES)
        with pytest.raises(InputError, match=r"b\.gii: 162 of 162 vertices lie outside the image; give a surface of"):
            surface_seeds([path], SPACE, Draw(9, 0))

    def test_no_area(self, tmp_path):
        path = save_gifti(tmp_path / "a.gii", EGG, [[0, 0, 1]])
        with pytest.raises(InputError, match="no triangle of seed_surface has an area"):
            surface_seeds([path], SPACE, Draw(9, 0))


BALL, ORIGIN = icosphere(2, 8.0), np.array([16.0, 18, 14])


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A small run along y, with a ball of FreeSurfer's as its seeds."""
    folder = tmp_path_factory.mktemp("in")
    options = write_inputs(folder)
    del options["seeds"]
    ball = save_freesurfer(folder / "lh.white", *BALL, footer(ORIGIN))
    return options | {"seed_surface": str(ball), "nseeds": 200, "min_length": 0}


def begun(**options):
    """Seeds of the streamlines of a run, by number."""
    batch = ts.Batch.concatenate(list(ts.stream(**options)))
    return batch.seeds[np.argsort(batch.seed_number, kind="stable")], batch


class TestRuns:
    def test_seeds_lie_on_the_surface_in_chunks_too(self, inputs):
        seeds, batch = begun(**inputs)
        assert 150 < len(seeds) <= 200
        away = np.linalg.norm(seeds - ORIGIN, axis=1)
        assert away.min() > 7.5
        assert away.max() < 8.001
        for more in ({"chunk_size": 37}, {"threads": 2}, {"surface_space": "tkras"}):
            assert np.array_equal(begun(**inputs | more)[1].points, batch.points)
        assert not np.array_equal(begun(**inputs, seed_seed=1)[0][:10], seeds[:10])

    @pytest.mark.parametrize("more", [{}, {"surface_direction": "inward", "one_way": True}])
    def test_parts_and_resumed_runs_are_the_whole(self, inputs, more, tmp_path, monkeypatch):
        monkeypatch.setattr(resume, "FEWEST", 30)
        monkeypatch.setattr(resume, "MOST", 30)
        whole = ts.track(output=tmp_path / "whole.trx", **inputs, **more)
        assert whole.n_streamlines > 50
        parts = [tmp_path / f"{number}.trx" for number in (1, 2, 3)]
        for number, path in enumerate(parts, 1):
            ts.track(output=path, **inputs, **more, part=f"{number}/3")
        ts.join(parts, tmp_path / "joined.trx")
        ts.track(output=tmp_path / "resumed.trx", **inputs, **more, resume=True)
        for name in ("joined", "resumed"):
            assert (tmp_path / f"{name}.trx").read_bytes() == (tmp_path / "whole.trx").read_bytes()

    def test_the_cache_keeps_tables_and_messages(self, inputs, tmp_path):
        class Told(ts.Watcher):
            def __init__(self):
                self.notes = []

            def note(self, text):
                self.notes.append(text)

        watchers = [Told(), Told()]
        first, again = (ts.track(**inputs, cache_dir=tmp_path, watcher=watcher) for watcher in watchers)
        assert any(tmp_path.rglob("*tables*"))
        assert np.array_equal(*(ts.Batch.concatenate(watcher.batches).points for watcher in (first, again)))
        assert watchers[0].notes == watchers[1].notes
        assert sum("moved from FreeSurfer's tkRAS" in watcher for watcher in watchers[0].notes) == 1

    @pytest.mark.parametrize("direction", ["normal", "inward"])
    def test_streamlines_start_along_the_normal(self, inputs, direction):
        """The first step of the forward half, at seeds of which the normal is near the fibres, along y."""
        turned = inputs | {"surface_direction": direction, "one_way": True, "nseeds": 1000, "max_angle": 90}
        batch = begun(**turned)[1]
        steps = np.array([line[1] - line[0] for line in batch if len(line) > 1])
        starts = np.array([line[0] for line in batch if len(line) > 1])
        out = (steps * (starts - ORIGIN)).sum(axis=1)
        steep = np.abs((starts - ORIGIN)[:, 1]) > 6
        assert steep.sum() > 100
        assert ((out > 0) == (direction == "normal"))[steep].all()

    def test_act_from_the_surface_of_white_matter(self, inputs, tmp_path):
        """Each streamline goes inward through a ball of white matter and ends in the grey matter around it."""
        grid = ts.Space(nib.load(inputs["peaks"]).affine, nib.load(inputs["peaks"]).shape[:3])
        away = np.linalg.norm(grid.to_ras(np.argwhere(np.ones(grid.shape))) - ORIGIN, axis=1).reshape(grid.shape)
        white, head = (np.clip(0.5 + (edge - away) / 2, 0, 1) for edge in (8.0, 12.0))
        five = np.stack([(1 - white) * head, 0 * white, white * head, 1 - head, 0 * white], axis=-1).astype(np.float32)
        options = {name: value for name, value in inputs.items() if name != "stop_map"}
        options |= {"act": nib.Nifti1Image(five, grid.affine), "step_size": 0.5}
        for more in ({}, {"surface_direction": "inward", "max_angle": 60}):
            batch = begun(**options, **more)[1]
            ends = np.concatenate([[line[0], line[-1]] for line in batch])
            assert len(batch) > 50
            assert np.linalg.norm(ends - ORIGIN, axis=1).min() > 7

    def test_options_that_do_not_fit(self, inputs):
        bare = {name: value for name, value in inputs.items() if name != "nseeds"}
        others = {"seed_sphere": [0, 0, 0, 5], "seeds_per_voxel": 3, "seed_grid": 2, "seeds": np.zeros((2, 3)),
                  "seed_image": "a.nii", "seed_gmwmi": "a.nii"}
        for name, value in others.items():
            with pytest.raises(ParameterError, match="exclude each other"):
                ts.Parameters.given({**bare, name: value})
        for name, value in (("seeds_per_vertex", 1), ("surface_direction", "inward"), ("surface_space", "tkras")):
            with pytest.raises(ParameterError, match=f"{name} needs seed_surface"):
                ts.Parameters.given({name: value})
        with pytest.raises(ParameterError, match="exclude each other"):
            ts.Parameters.given({**inputs, "seeds_per_vertex": 1})
        with pytest.raises(ParameterError, match="max_directions changes nothing where the direction of each seed's"):
            begun(**inputs, surface_direction="normal", max_directions=2)

    def test_getters_without_vertices_start_near_the_normal(self, inputs):
        """Within two cones of it, where FODs are alike in all directions: of the start, and of the first step."""
        sh = np.zeros((16, 18, 14, 15), np.float32)
        sh[..., 0] = 1
        image = nib.Nifti1Image(sh, nib.load(inputs["peaks"]).affine)
        common = {name: inputs[name] for name in ("seed_surface", "nseeds", "min_length", "arch", "threads")}
        common |= {"stop_mask": inputs["stop_map"], "surface_direction": "inward", "one_way": True, "max_angle": 15}
        batch = begun(**common, sh=image, sh_basis="tournier07", dg="ifod1")[1]
        assert len(batch) > 100
        inward = ORIGIN - batch.seeds
        steps = np.array([line[1] - line[0] for line in batch])
        cosines = (steps * inward).sum(axis=1) / np.linalg.norm(steps, axis=1) / np.linalg.norm(inward, axis=1)
        assert np.degrees(np.arccos(cosines)).max() < 35, "5 of them for the facets of the ball"


class TestCommandLine:
    def arguments(self, inputs, output, *more):
        names = ("peaks", "stop_map", "dg", "peaks_frame", "arch", "threads", "min_length")
        words = [word for name in names for word in (f"--{name.replace('_', '-')}", inputs[name])]
        return ["track", *words, "-o", output, "--seed-surface", inputs["seed_surface"], *more]

    def test_both_hemispheres(self, inputs, run, tmp_path):
        other = save_gifti(tmp_path / "rh.white.surf.gii", BALL[0] * 0.5, BALL[1], fields(moved(ORIGIN, y=-4)))
        output = tmp_path / "a.trx"
        words = self.arguments(inputs, output, "--seed-surface", other, "--seeds-per-vertex", 2)
        done = run(*words)
        assert done.code == 0
        assert "c_ras = (16.00, 18.00, 14.00)" in done.err
        assert "does not say in which space its vertices are" in done.err
        assert "confirm it with --surface-space tkras" in done.err
        record = json.loads(output.with_suffix(".json").read_text())
        assert record["result"]["seeds"] == 2 * 2 * 162
        for number, path in enumerate((inputs["seed_surface"], other), 1):
            assert record["inputs"][f"seed_surface {number}"] == {"path": str(path), "sha256": sha256(path)}
        assert len(record["warnings"]) >= 1

    def test_estimate(self, inputs, run, tmp_path):
        done = run(*self.arguments(inputs, tmp_path / "a.trx", "--nseeds", 5000, "--dry-run"))
        assert done.code == 0, done.err
        assert not list(tmp_path.iterdir())

    def test_what_is_wrong_is_one_line(self, inputs, run, tmp_path):
        path = save_freesurfer(tmp_path / "lh.pial", *BALL)
        done = run(*self.arguments(inputs, tmp_path / "a.trx", "--seed-surface", path))
        assert (done.code, done.err.count("Error: ")) == (1, 1)
        assert "lh.pial: has no valid geometry of its volume" in done.err
