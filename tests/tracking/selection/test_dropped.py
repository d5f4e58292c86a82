"""How many streamlines were dropped, and why, against filtering after the fact; and the ends of those written."""

from __future__ import annotations

import json
import re
from collections import Counter
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


def test_regions_out_of_turn(tracked, plain):
    """The first point that breaks a rule decides; at one point, exclusion comes before order."""
    first, second, out = ENDS[0], MIDDLE, [*ENDS[1][:3], 18.0]
    batch = plain.batches[0]
    along = np.array([line[1] - line[0] for line in batch])
    directed = np.hstack([batch.points[batch.offsets[:-1]], along])  # one streamline each, without random draws
    along_one_way: dict[str, Any] = {"one_way": True, "min_separation_angle": None, "relative_peak_threshold": None}
    stepped = directed[tracked(seeds=directed, **along_one_way).batches[0].seed_number]
    free = tracked(seeds=stepped, **along_one_way)
    result = tracked(seeds=stepped, **along_one_way, include_ordered=[first, second], exclude=[out])
    counts: Counter[Verdict] = Counter()
    for line, _ in rows(free):
        entered, verdict = 0, None
        for a, b, excluded in zip(within(line, first), within(line, second), within(line, out), strict=True):
            region = 1 if a else 2 if b else entered  # of overlapping regions, the first counts
            if excluded or region not in (entered, entered + 1):
                verdict = Verdict.EXCLUDED if excluded else Verdict.OUT_OF_TURN
                break
            entered = region
        through = Verdict.ACCEPTED if entered == 2 else Verdict.MISSED_INCLUDE
        counts[through if verdict is None else verdict] += 1
    assert free.dropped == named(Counter())
    assert len(counts) == 4, counts
    assert result.dropped == named(counts)
    assert result.n_streamlines == counts[Verdict.ACCEPTED]


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


@pytest.mark.parametrize("select", [None, 5])
def test_a_run_that_goes_on_has_the_counts_of_one_run(tracked, tmp_path, monkeypatch, select):
    single = tracked(tmp_path / "a.tck", **DEMANDS, select=select)
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

    with monkeypatch.context() as broken, pytest.raises(Stopped):
        broken.setattr(resume.sidecar, "write_json", write)
        tracked(tmp_path / "b.tck", **DEMANDS, select=select, resume=True)
    result = tracked(tmp_path / "b.tck", **DEMANDS, select=select, resume=True)
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
