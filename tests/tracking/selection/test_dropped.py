"""How many streamlines were dropped, why and where, against filtering after the fact; and the ends of those written."""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import nullcontext
from typing import Any

import nibabel as nib
import numpy as np
import pytest

import tistreamlines as ts
from tistreamlines.devices import choose
from tistreamlines.kernels.stop_reasons import DROPPED, VALID, Stop, Verdict
from tistreamlines.run import resume, setup

STEP = 2.5  # mm, half a voxel of the head


@pytest.fixture(scope="module")
def seeds(head) -> np.ndarray:
    """Points in the brain, RASmm, many of them where no step is possible."""
    image = nib.load(head.mask)
    inside = np.argwhere(np.asarray(image.dataobj) > 0)[::7]
    points = inside + np.random.default_rng(3).uniform(-0.4, 0.4, inside.shape)
    return points @ image.affine[:3, :3].T + image.affine[:3, 3]


@pytest.fixture(scope="module")
def tracked(head, seeds, tmp_path_factory):
    """Track the head deterministically: ``tracked(**options)``."""
    known = {"mask": head.mask, "dg": "det", "arch": "cpu", "cache_dir": tmp_path_factory.mktemp("cache"),
             "min_separation_angle": 15, "relative_peak_threshold": 0.1, "min_length": 0}

    def call(output: Any = None, **options: Any) -> ts.TrackResult:
        return ts.track(*head.series, output, **{**known, "seeds": seeds, **options})

    return call


@pytest.fixture(scope="module")
def plain(tracked) -> ts.TrackResult:
    return tracked()


# spheres of the head (RASmm): two ends of a bundle, its middle, and one in which many other streamlines lie
ENDS: list[list[float]] = [[-20, 71, 7, 25], [9, 70, 8, 25]]
MIDDLE, AVOIDED = [-4.0, 49, 5, 15], [10.0, -10, -30, 20]
DEMANDS: dict[str, Any] = {
    "exclude": [AVOIDED], "include": [MIDDLE], "ends_in": ENDS, "min_length": 15, "max_length": 100,
    "keep": "valid-ends",
}


def within(points: np.ndarray, spot: list[float]) -> np.ndarray:
    return np.linalg.norm(points - np.array(spot[:3]), axis=1) <= spot[3]


def grown(result: ts.TrackResult) -> int:
    return result.n_streamlines + sum(result.dropped.values())


def rows(result: ts.TrackResult) -> list[tuple[np.ndarray, np.ndarray]]:
    """Points and stop reasons of each streamline."""
    return [(line, ends) for batch in result.batches for line, ends in zip(batch, batch.stop_reasons, strict=True)]


def judged(line: np.ndarray, ends: np.ndarray) -> Verdict:
    """What filtering after the fact makes of a streamline, in the order of the reasons."""
    a, b = (within(line[[0, -1]], spot) for spot in ENDS)
    length = (len(line) - 1) * STEP
    reasons = {
        Verdict.EXCLUDED: within(line, AVOIDED).any(),
        Verdict.TOO_SHORT: length < DEMANDS["min_length"],
        Verdict.TOO_LONG: length > DEMANDS["max_length"],
        Verdict.INVALID_ENDS: not np.isin(ends, VALID).all(),
        Verdict.MISSED_INCLUDE: not within(line, MIDDLE).any(),
        Verdict.ENDS_ELSEWHERE: not ((a[0] and b[1]) or (a[1] and b[0])),
    }
    return min((verdict for verdict, holds in reasons.items() if holds), default=Verdict.ACCEPTED)


def named(counts: Counter[Verdict]) -> dict[str, int]:
    return {verdict.name.lower(): counts[verdict] for verdict in DROPPED}


def ends_of(result: ts.TrackResult) -> dict[str, int]:
    counts = Counter(int(reason) for _, ends in rows(result) for reason in ends)
    return {reason.name.lower(): counts[reason] for reason in Stop if reason is not Stop.GROWING}


def test_each_streamline_is_dropped_for_the_first_reason_that_holds(tracked, plain, seeds):
    result = tracked(**DEMANDS)
    counts = Counter(judged(*row) for row in rows(plain))
    inside = within(seeds, AVOIDED)
    without = tracked(seeds=seeds[inside]).dropped["no_step"]  # det draws no random numbers
    counts[Verdict.EXCLUDED] += without
    counts[Verdict.NO_STEP] = plain.dropped["no_step"] - without
    assert without > 0
    assert set(counts) == set(Verdict) - {Verdict.OUT_OF_TURN, Verdict.SEED_OUTSIDE_LIMIT}, counts
    assert result.dropped == named(counts)
    assert result.n_streamlines == counts[Verdict.ACCEPTED]
    assert grown(result) == grown(plain) == plain.n_streamlines + plain.dropped["no_step"]
    assert sum(result.stop_reasons.values()) == 2 * grown(result)


def test_ends_of_the_streamlines_written(tracked, plain):
    for result in (plain, tracked(**DEMANDS), tracked(max_length=30, one_way=True)):
        assert result.written_stop_reasons == ends_of(result)
        assert sum(result.written_stop_reasons.values()) == 2 * result.n_streamlines
        assert result.written_stop_reasons != result.stop_reasons


def test_seeds_outside_the_limit_mask(tracked, seeds):
    """Also those from which no step is possible."""
    outside = tracked(seeds=seeds[~within(seeds, MIDDLE)])
    result = tracked(limit_mask=[MIDDLE])
    assert result.dropped["seed_outside_limit"] == grown(outside) > 0
    assert result.dropped["excluded"] == 0


# --------------------------------------------------------------------------------------------------------------- where
def voxels_of(result: ts.TrackResult, points: np.ndarray) -> tuple[np.ndarray, ...]:
    to_voxel = np.linalg.inv(result.space.affine)
    return tuple(np.rint(nib.affines.apply_affine(to_voxel, np.atleast_2d(points))).astype(int).T)


def entry(line: np.ndarray, seed: np.ndarray, excluded: np.ndarray) -> np.ndarray:
    """The first point that is excluded, of the forward half, which follows the seed, else of the other."""
    at = int(np.linalg.norm(line - seed, axis=1).argmin())
    return line[[*range(at, len(line)), *range(at, -1, -1)]][np.r_[excluded[at:], excluded[at::-1]]][0]


def places(plain: ts.TrackResult, no_step: np.ndarray, excluded_seeds: np.ndarray) -> np.ndarray:
    """The map of dropped streamlines by filtering after the fact."""
    expected = np.zeros_like(no_step)
    expected[..., Verdict.NO_STEP] = no_step[..., Verdict.NO_STEP] - excluded_seeds[..., Verdict.NO_STEP]
    expected[..., Verdict.EXCLUDED] = excluded_seeds[..., Verdict.NO_STEP]
    seeds = np.concatenate([batch.seeds for batch in plain.batches])
    for (line, ends), seed in zip(rows(plain), seeds, strict=True):
        verdict, points = judged(line, ends), line[[0, -1]]
        if verdict is Verdict.ACCEPTED:
            continue
        if verdict is Verdict.EXCLUDED:
            points = entry(line, seed, within(line, AVOIDED))[None]
        elif verdict is Verdict.INVALID_ENDS:
            points = points[~np.isin(ends, VALID)]
        np.add.at(expected[..., verdict], voxels_of(plain, points), 1 / len(points))
    return expected


def test_streamlines_are_dropped_where_filtering_after_the_fact_says(tracked, seeds, tmp_path, monkeypatch):
    monkeypatch.setattr(setup, "choose_several", lambda arch, text: [choose("cpu")] * 2)
    most = int(DEMANDS["max_length"] / STEP) + 2  # with which a half ends that is too long
    plain = tracked(rejected=tmp_path / "plain.nii", max_steps=most)
    inside = tracked(seeds=seeds[within(seeds, AVOIDED)], rejected=tmp_path / "inside.nii")
    expected = places(plain, *(result.products["rejected"] for result in (plain, inside)))
    result = tracked(tmp_path / "a.trx", **DEMANDS, rejected=tmp_path / "a.nii.gz")
    ours = result.products["rejected"]
    np.testing.assert_array_equal(ours, expected)
    assert dict(zip(result.dropped, ours.sum(axis=(0, 1, 2)), strict=True)) == result.dropped
    volumes = json.loads((tmp_path / "a.json").read_text())["rejected"]["volumes"]
    assert {volume["name"]: volume["streamlines"] for volume in volumes} == result.dropped
    assert [volume["reason"] for volume in volumes] == [reason.text for reason in DROPPED]
    np.testing.assert_array_equal(nib.load(tmp_path / "a.nii.gz").get_fdata(), expected)
    for number, other in enumerate((
        {"chunk_size": 7, "threads": 1}, {"devices": "all"}, {"keep_streamlines": False},
        {"keep_streamlines": False, "density": tmp_path / "d.nii"}, {"sample": result.parameters.mask},
    )):
        again = tracked(**DEMANDS, rejected=tmp_path / f"b{number}.nii.gz", **other)
        assert (tmp_path / f"b{number}.nii.gz").read_bytes() == (tmp_path / "a.nii.gz").read_bytes(), other
        assert again.dropped == result.dropped


@pytest.mark.parametrize("devices", [None, "all"])
def test_a_selection_counts_places_up_to_its_last_streamline(tracked, tmp_path, monkeypatch, devices):
    monkeypatch.setattr(setup, "choose_several", lambda arch, text: [choose("cpu")] * 2)
    result = tracked(**DEMANDS, select=5, rejected=tmp_path / "a.nii", devices=devices)
    ours = result.products["rejected"]
    assert dict(zip(result.dropped, ours.sum(axis=(0, 1, 2)), strict=True)) == result.dropped
    assert result.n_streamlines == 5


def test_seeds_are_where_their_streamlines_are_dropped(tracked, seeds, tmp_path):
    result = tracked(limit_mask=[MIDDLE], rejected=tmp_path / "a.mif")
    volume = result.products["rejected"][..., Verdict.SEED_OUTSIDE_LIMIT]
    outside = seeds[~within(seeds, MIDDLE)]
    assert volume.sum() == result.dropped["seed_outside_limit"] > 0
    allowed = np.zeros(volume.shape, bool)
    allowed[voxels_of(result, outside)] = True
    assert not volume[~allowed].any()
    assert b"volumes: seed_outside_limit\n" in (tmp_path / "a.mif").read_bytes()


def test_of_a_single_half_the_seed_is_no_end(tracked, tmp_path):
    result = tracked(one_way=True, min_length=40, rejected=tmp_path / "a.nii")
    free = tracked(one_way=True)
    short = [line[-1] for line, _ in rows(free) if (len(line) - 1) * STEP < 40]
    expected = np.zeros(free.space.shape)
    np.add.at(expected, voxels_of(free, np.array(short)), 1)
    np.testing.assert_array_equal(result.products["rejected"][..., Verdict.TOO_SHORT], expected)


def test_no_streamline_and_what_cannot_be_made(tracked, head, tmp_path):
    corner = nib.load(head.mask).affine[:3, 3][None]
    with pytest.warns(UserWarning, match="no streamline was accepted"):
        result = tracked(seeds=corner, rejected=tmp_path / "a.nii")
    assert not result.products["rejected"].any()
    with pytest.raises(TypeError, match="rejected"):
        ts.map_tractogram(tmp_path / "a.trx", rejected=tmp_path / "b.nii")
    with pytest.raises(ts.TrackingError, match=r"\.nii"):
        tracked(rejected=tmp_path / "a.tsv")


def test_regions_out_of_turn(tracked, plain, tmp_path):
    """The first point that breaks a rule decides; at one point, exclusion comes before order."""
    first, second, out = ENDS[0], MIDDLE, [*ENDS[1][:3], 18.0]
    batch = plain.batches[0]
    along = np.array([line[1] - line[0] for line in batch])
    directed = np.hstack([batch.points[batch.offsets[:-1]], along])  # one streamline each, without random draws
    along_one_way: dict[str, Any] = {"one_way": True, "min_separation_angle": None, "relative_peak_threshold": None}
    stepped = directed[tracked(seeds=directed, **along_one_way).batches[0].seed_number]
    free = tracked(seeds=stepped, **along_one_way)
    result = tracked(seeds=stepped, **along_one_way, include_ordered=[first, second], exclude=[out],
                     rejected=tmp_path / "a.nii")
    counts: Counter[Verdict] = Counter()
    expected = np.zeros((*free.space.shape, 2))
    for line, _ in rows(free):
        entered, verdict = 0, None
        inside = (within(line, spot) for spot in (first, second, out))
        for point, a, b, excluded in zip(line, *inside, strict=True):
            region = 1 if a else 2 if b else entered  # of overlapping regions, the first counts
            if excluded or region not in (entered, entered + 1):
                verdict = Verdict.EXCLUDED if excluded else Verdict.OUT_OF_TURN
                expected[(*voxels_of(free, point), verdict)] += 1
                break
            entered = region
        through = Verdict.ACCEPTED if entered == 2 else Verdict.MISSED_INCLUDE
        counts[through if verdict is None else verdict] += 1
    assert free.dropped == named(Counter())
    assert len(counts) == 4, counts
    assert result.dropped == named(counts)
    assert result.n_streamlines == counts[Verdict.ACCEPTED]
    np.testing.assert_array_equal(result.products["rejected"][..., :2], expected)


# ------------------------------------------------------------------------------------------- however a run is divided
def same_counts(counts: dict[str, Any], expected: dict[str, Any]) -> None:
    for name in ("seeds", "streamlines", "points", "stop_reasons", "written_stop_reasons", "dropped"):
        assert counts[name] == expected[name], name


@pytest.mark.parametrize("select", [None, 5])
def test_counts_do_not_depend_on_chunks_threads_and_devices(tracked, monkeypatch, select):
    monkeypatch.setattr(setup, "choose_several", lambda arch, text: [choose("cpu")] * 2)
    result = tracked(**DEMANDS, select=select)
    assert select in (None, result.n_streamlines)
    for other in ({"chunk_size": 7, "threads": 1}, *([{"devices": "all"}] if select else [])):
        same_counts(tracked(**DEMANDS, select=select, **other).as_dict(), result.as_dict())


def test_a_selection_counts_up_to_its_last_streamline(tracked, plain):
    result = tracked(**DEMANDS, select=5)
    last = (result.batches[-1].seed_number[-1], result.batches[-1].direction_number[-1])
    counts: Counter[Verdict] = Counter()
    for batch in plain.batches:
        for line, ends, *key in zip(
            batch, batch.stop_reasons, batch.seed_number, batch.direction_number, strict=True
        ):
            if tuple(key) <= last:
                counts[judged(line, ends)] += 1
    for verdict in (Verdict.TOO_SHORT, Verdict.TOO_LONG, Verdict.INVALID_ENDS, Verdict.MISSED_INCLUDE):
        assert result.dropped[verdict.name.lower()] == counts[verdict]
    assert counts[Verdict.ACCEPTED] == result.n_streamlines == 5
    assert sum(result.stop_reasons.values()) == 2 * grown(result)


def test_joined_parts_have_the_counts_of_one_run(tracked, tmp_path):
    single = tracked(tmp_path / "a.trx", **DEMANDS)
    paths = [tmp_path / f"part{k}.trx" for k in (1, 2, 3)]
    for k, path in enumerate(paths, 1):
        tracked(path, **DEMANDS, part=f"{k}/3")
    same_counts(ts.join(paths, tmp_path / "b.tck"), single.as_dict())
    same_counts(json.loads((tmp_path / "b.json").read_text())["result"], single.as_dict())
    header = nib.streamlines.load(tmp_path / "b.tck", lazy_load=True).header
    tried = single.n_streamlines + sum(single.dropped.values()) - single.dropped["seed_outside_limit"]
    assert (int(header["count"]), int(header["total_count"])) == (single.n_streamlines, tried)
    assert tried > single.n_streamlines > 0
    single.save(tmp_path / "c.tck")
    assert (tmp_path / "b.tck").read_bytes() == (tmp_path / "c.tck").read_bytes()


@pytest.mark.parametrize(("select", "damage"), [(None, None), (5, None), (None, "lost"), (None, "other")])
def test_a_run_that_goes_on_has_the_counts_of_one_run(tracked, tmp_path, monkeypatch, select, damage):
    single = tracked(tmp_path / "a.tck", **DEMANDS, select=select, rejected=tmp_path / "a.nii")
    monkeypatch.setattr(resume, "FEWEST", 20)
    monkeypatch.setattr(resume, "MOST", 50)
    written = []

    class Stopped(Exception):
        pass

    def write(path, *arguments, real=resume.sidecar.write_json, **named):
        if len(written) == 3:
            raise Stopped
        written.append(path)
        real(path, *arguments, **named)

    demands = {**DEMANDS, "select": select, "resume": True, "rejected": tmp_path / "b.nii"}
    with monkeypatch.context() as broken, pytest.raises(Stopped):
        broken.setattr(resume.sidecar, "write_json", write)
        tracked(tmp_path / "b.tck", **demands)
    *_, last, _ = sorted(tmp_path.rglob("*.rejected.npy"))  # the piece of the last one has no record
    if damage == "lost":
        last.unlink()
    elif damage == "other":
        np.save(last, np.load(last)[1:])
    with pytest.warns(UserWarning, match="tracked anew") if damage else nullcontext():
        result = tracked(tmp_path / "b.tck", **demands)
    assert (tmp_path / "a.nii").read_bytes() == (tmp_path / "b.nii").read_bytes()
    assert (tmp_path / "a.tck").read_bytes() == (tmp_path / "b.tck").read_bytes()
    assert any("goes on after" in note for note in result.notes)
    same_counts(result.as_dict(), single.as_dict())


# ------------------------------------------------------------------------------------------------------- what is said
def test_the_summary_and_the_record_say_so(track, tmp_path):
    done = track(tmp_path / "a.trx", "--min-length", 20, "--exclude", "0,0,0,30", "--nseeds", 500)
    assert done.code == 0, done.err
    result = json.loads((tmp_path / "a.json").read_text())["result"]
    _, dropped, ends = done.out.splitlines()
    numbers = {text: int(number.replace(",", "")) for text, number in re.findall(r"(\w[^(,:]+) \(([\d,]+)\)", dropped)}
    by_text = {Verdict[name.upper()].text: number for name, number in result["dropped"].items() if number}
    assert numbers == by_text
    assert len(numbers) >= 2
    count = sum(numbers.values())
    assert dropped.startswith(f"Dropped: {count:,} of {result['streamlines'] + count:,}: ")
    shares = dict(re.findall(r"(?:Ends: |, )([^(]+) \(([\d.]+)%\)", ends))
    assert sum(map(float, shares.values())) == pytest.approx(100, abs=0.3)
    share = result["written_stop_reasons"]["end_point"] / (2 * result["streamlines"])
    assert shares[Stop.END_POINT.text] == f"{100 * share:.1f}"


def test_every_reason_has_its_words():
    assert set(DROPPED) == set(Verdict) - {Verdict.ACCEPTED}
    assert max(Verdict) is Verdict.ACCEPTED
