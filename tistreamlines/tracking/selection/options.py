"""Options of selection and of regions of interest."""

from __future__ import annotations

from dataclasses import dataclass

from ...option import REGIONS, ImageLike, OneOrMore, option

SEEDS_EACH = 1000  # of a streamline of --select, as MRtrix3's -select
SPEC = "FILE|x,y,z,r"


@dataclass(frozen=True, repr=False, eq=False)
class RegionOptions:
    """Options of regions of interest, a part of :class:`tistreamlines.Parameters`."""

    include: OneOrMore[ImageLike] | None = option(
        None, REGIONS, "Keep streamlines that visit this region: a mask on any grid, a label of an image (FILE:10), "
        "or a sphere in RASmm. With several regions, all must be visited.", unit=SPEC, absent="none", common=True,
        affects="growth",
    )
    exclude: OneOrMore[ImageLike] | None = option(
        None, REGIONS, "Drop streamlines that visit this region. They end at once.", unit=SPEC, absent="none",
        common=True, affects="growth",
    )
    include_ordered: OneOrMore[ImageLike] | None = option(
        None, REGIONS, "Keep streamlines that enter these regions in the order in which they are given, and none "
        "before its turn.", unit=SPEC, absent="none", requires=("one_way",), affects="growth",
    )
    limit_mask: OneOrMore[ImageLike] | None = option(
        None, REGIONS, "End streamlines where they leave this region. The point outside and seeds outside are "
        "dropped. Several regions count as one.", unit=SPEC, absent="the whole image", affects="growth",
    )
    stop_when_included: bool = option(
        False, REGIONS, "End streamlines once they have visited all regions of --include and --include-ordered. The "
        "backward half is grown after the forward half.", affects="growth",
    )
    ends_in: OneOrMore[ImageLike] | None = option(
        None, REGIONS, "Keep streamlines with an end in this region; with two regions, those with one end in each.",
        unit=SPEC, absent="none", affects="growth",
    )


@dataclass(frozen=True, repr=False, eq=False)
class SelectionOptions:
    """Options of how many streamlines are tracked."""

    select: int | None = option(
        None, REGIONS, "Track until this number of streamlines is accepted: the first ones in the order of the seeds, "
        "the same on every device.", unit="streamlines", low=1, high=2**32 - 1, absent="those of all seeds",
        excludes=("nseeds",), common=True, affects="growth",
    )
    max_seeds: int | None = option(
        None, REGIONS, "Greatest number of seeds of --select.", unit="seeds", low=1, high=2**32 - 1,
        absent=f"{SEEDS_EACH} times --select", requires=("select",), affects="growth",
    )
    time_limit: float | None = option(
        None, REGIONS, "Begin no further seeds after this time of tracking. The result then depends on the speed "
        "of the device.", unit="s", low=0, above=True, absent="no limit", affects="growth",
    )
