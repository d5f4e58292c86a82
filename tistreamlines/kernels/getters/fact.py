"""FACT: a step follows the peak of a voxel that is most collinear with the last one (Mori et al. 1999).

Nothing is drawn but the direction from which the first peak is sought, as in MRtrix3's tckgen.  The code of a step is its
direction; see :func:`.shared.decoded`.
"""

from __future__ import annotations

from ...linker.lang import *
from ..halves import *
from ..interpolate import Corners, Volume, find_corners, row_start
from ..orientation.peaks import LEAVES, NONE, dot
from .fod import start_of
from .shared import HeadingScratch, decoded, encoded

PEAKS = Constant("peaks of a voxel")
BLENDS = Constant("1: peaks of the eight voxels around a point are blended, 0: those of the nearest voxel count")
SHORT = 1e-30  # squared length of what is no peak


class Fact(Record):
    """Tables of the method: length below which no peak is followed, and squared cosine of the greatest angle.

    A row has x, y and z of each peak in turn.
    """

    threshold: real
    cos_squared: real


@func
def collinear_peak(volume: Volume, row: i32, d: vec3, method: Fact) -> vec3:
    """The peak of a row that is most collinear with a direction, in its sense; zeros if none lies within the angle.

    The squared cosines of two peaks are compared without a division.
    """
    best = 0.0
    length = 1.0
    chosen = -1
    for peak in range(PEAKS):
        c = row + 3 * peak
        squared = (volume.rows[c] * volume.rows[c] + volume.rows[c + 1] * volume.rows[c + 1]) + volume.rows[c + 2] * volume.rows[c + 2]
        along = (volume.rows[c] * d[0] + volume.rows[c + 1] * d[1]) + volume.rows[c + 2] * d[2]
        share = along * along
        within = (squared > SHORT) & (share >= method.cos_squared * squared)
        closer = within & (share * length > best * squared)
        best = where(closer, share, best)
        length = where(closer, squared, length)
        chosen = where(closer, c, chosen)
    x = 0.0
    y = 0.0
    z = 0.0
    if chosen >= 0:
        x = volume.rows[chosen]
        y = volume.rows[chosen + 1]
        z = volume.rows[chosen + 2]
    sense = where((x * d[0] + y * d[1]) + z * d[2] < 0.0, -1.0, 1.0)
    return vec3(sense * x, sense * y, sense * z)


@func
def nearest_row(volume: Volume, p: vec3) -> i32:
    """First element of the row of the voxel nearest to a point inside the image; 0 if it has no peaks."""
    return row_start(volume, i32(floor(p[0] + 0.5)), i32(floor(p[1] + 0.5)), i32(floor(p[2] + 0.5)))


@func
def peak_at(volume: Volume, p: vec3, d: vec3, method: Fact) -> vec3:
    """The peak at a point that a direction leads to; blended, each voxel around it gives the one most collinear."""
    if BLENDS:
        corners = Corners()
        find_corners(corners, volume, p)
        a = collinear_peak(volume, corners.r000, d, method)
        b = collinear_peak(volume, corners.r001, d, method)
        peak = blended(vec3(corners.w000 * a[0], corners.w000 * a[1], corners.w000 * a[2]), corners.w001, b)
        peak = blended(peak, corners.w010, collinear_peak(volume, corners.r010, d, method))
        peak = blended(peak, corners.w011, collinear_peak(volume, corners.r011, d, method))
        peak = blended(peak, corners.w100, collinear_peak(volume, corners.r100, d, method))
        peak = blended(peak, corners.w101, collinear_peak(volume, corners.r101, d, method))
        peak = blended(peak, corners.w110, collinear_peak(volume, corners.r110, d, method))
        peak = blended(peak, corners.w111, collinear_peak(volume, corners.r111, d, method))
    else:
        peak = collinear_peak(volume, nearest_row(volume, p), d, method)
    return peak


@func
def blended(peak: vec3, weight: real, more: vec3) -> vec3:
    """The sum of a peak and of the share of another one."""
    return vec3(peak[0] + weight * more[0], peak[1] + weight * more[1], peak[2] + weight * more[2])


@func
def peak_code(volume: Volume, p: vec3, d: vec3, method: Fact) -> i32:
    """Code of the peak at a point that a direction leads to; NONE if it is too short, LEAVES where there are no peaks."""
    code = LEAVES
    if nearest_row(volume, p) > 0:
        peak = peak_at(volume, p, d, method)
        code = NONE
        if dot(peak, peak) >= method.threshold * method.threshold:
            code = encoded(peak)
    return code


@func
def begin_at_fixel(volume: Volume, p: vec3, method: Fact, scratch: HeadingScratch, c0: u32, key: Ints) -> i32:
    """Find the peak at a seed that a given or a random direction leads to; return 0 if there is none."""
    d = start_of(c0, u32(0), key)
    if DIRECTED:
        d = decoded(scratch.peaks.kept[0])
    code = peak_code(volume, p, d, method)
    barrier()
    scratch.peaks.kept[0] = code
    barrier()
    return where(code >= 0, 1, 0)


@func
def choose_fixel(position: Position, run: Run) -> i32:
    """Code of the peak that the last direction leads to; NONE if it is too short, LEAVES where there are no peaks."""
    return peak_code(run.volume, position.p, decoded(position.code), run.method)
