"""Made-up benchmark results, and readers of the reports on them."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np

VOID = {"meta", "link", "br", "hr", "img", "input"}
EVIL = "cuslines-<b>cuda</b>"
HASH = "1495452f98e533ad43b63afc698b0f8f9784689a257fc3f9963cbedaec4ace39"


def run(dg, target, rate, **others):
    """A run that ended; ``rate`` in points a second."""
    points, streamlines = 1_629_645, 31_837
    track = points / rate
    return {
        "case": "brain", "dg": dg, "model": "opdt" if dg == "boot" else "csd", "target": target, "kind": "arch",
        "nseeds": 20_000, "threads": None, "chunk_size": None, "exact": True, "status": "ok", "reason": "",
        "seconds": {
            "compile": 2.51, "prepare": 0.7, "write": 0.123, "total": 3 * track,
            "track": track, "track_least": 0.97 * track, "track_greatest": 1.04 * track,
            "repeats": [0.97 * track, track, 1.04 * track],
            "stages": {"start": 0.3 * track, "grow": 0.6 * track, "pack": 0.1 * track},
        },
        "streamlines": streamlines, "points": points, "mean_points": 51.187, "median_points": 35.0,
        "mean_mm": 25.09, "median_mm": 17.0,
        "points_per_second": rate, "streamlines_per_second": streamlines / track,
        "crossing": 812, "commissural": 655, "sha256": HASH,
        "peak_host_bytes": 900 * 2**20, "device_bytes": 3 * 2**30, "copied_bytes": 25 * 2**20,
        "density_correlation": {"dipy": 0.99631}, "length_ks": {"dipy": 0.011}, "identical": {"cpu": 1.0, "cuda": 1.0},
        "truth": {"valid": 0.6126, "invalid": 0.1, "none": 0.2874, "bundles": 7, "overlap": 0.5, "overreach": 0.25},
        "limit_share": {"bytes": 1.32, "operations": 0.214},
        **others,
    }


def peer(dg, target, rate, **others):
    known = {"kind": "peer", "exact": None, "sha256": "", "limit_share": None, "density_correlation": {}, "threads": 1}
    return run(dg, target, rate, **(known | others))


def absent(dg, target, status, reason):
    """A peer that came to nothing: all that is known is why."""
    keys = ("case", "dg", "model", "target", "kind", "nseeds", "threads", "chunk_size", "exact")
    return {key: peer(dg, target, 1.0)[key] for key in keys} | {"status": status, "reason": reason, "seconds": None}


def sweep(target, dg, rate):
    seeds = [1000, 10_000, 100_000]
    return {
        "name": "seeds", "unit": "seeds", "case": "brain", "dg": dg, "target": target, "values": seeds,
        "seconds": [0.01 + 51 * n / rate for n in seeds], "points": [51 * n for n in seeds],
        "peak_host_bytes": [100 * 2**20, 200 * 2**20, None],
    }


def made_up():
    """Two archs, a peer that ran, one that failed and one that took too long; a case with two getters."""
    rng = np.random.default_rng(1)
    targets = ("cpu", "cuda", "dipy")
    groups = ("brain boot", "brain prob")
    return {
        "schema": 1,
        "created": "2026-11-21T12:00:00Z",
        "command": "tistreamlines benchmark --case brain | tee log",
        "commit": "0c4a01e",
        "machine": {
            "cpu": "AMD EPYC 9V74",
            "cores": 2,
            "memory_bytes": 16 * 2**30,
            "system": "Linux",
            "devices": [{"arch": "cuda", "name": "NVIDIA H200", "driver": "570.1", "memory_bytes": 139 * 2**30}],
            "versions": {"numpy": "2.4.6", "taichi": "1.7.4"},
        },
        "limits": {
            arch: {"device": arch, "bytes_per_second": speed, "multiply_adds_per_second": 10 * speed}
            for arch, speed in (("cpu", 2.05e10), ("cuda", 4.11e12))
        },
        "runs": [
            run("boot", "cpu", 742_000.0, threads=2, limit_share={"bytes": None, "operations": 0.31}),
            run("boot", "cuda", 124_321_000.0),
            peer("boot", "dipy", 5_200.0, nseeds=1000),
            absent("boot", EVIL, "failed", "CUDA error: <out of memory> at __launch__"),
            absent("boot", "tckgen", "timeout", "took over 600 s"),
            run("prob", "cpu", 1_340_000.0, threads=2),
            run("prob", "cuda", 174_000_000.0, sha256="f" * 64, identical={"cpu": 0.875}),
            peer("prob", "dipy", 162_000.0),
        ],
        "sweeps": [sweep("cpu", "boot", 7e5), sweep("cuda", "boot", 1.2e8), sweep("dipy", "boot", 5e3)],
        "densities": {key: {name: rng.poisson(3, (20, 16)).tolist() for name in targets} for key in groups},
        "lengths": {
            key: {"edges_mm": list(range(0, 110, 10))} | {name: rng.poisson(50, 10).tolist() for name in targets}
            for key in groups
        },
    }


class Page(HTMLParser):
    """Checks that elements close, and collects what they hold."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.elements, self.words = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    def count(self, tag):
        return sum(name == tag for name, _ in self.elements)


def cells(text, *beginning):
    """The row of a Markdown table whose cells begin so."""
    rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.splitlines()]
    return next(row for row in rows if row[: len(beginning)] == list(beginning))


def part_of(text, title):
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def named(text, title, *beginning):
    """The row so beginning in the first table of a section, by the names of the columns."""
    part = part_of(text, title)
    return dict(zip(cells(part, "target"), cells(part, *beginning), strict=False))
