"""Options of weights of streamlines, and of seeds where their density is too low."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import ParameterError
from ...option import OUTPUT, SEEDS, ImageLike, OneOrMore, PathLike, option, pairs_of, values_of
from ..stopping.segmentation import ACT, TissueFiles, tissue_files

TRACKED = "tracked"  # instead of an image of FODs: what streamlines follow
SUFFIXES = (".txt", ".csv")
NEEDS: dict[str, object] = {"requires": ("sift2",), "affects": "run"}
SEEDED: dict[str, object] = {"requires": ("seed_dynamic",), "affects": "growth"}
ITERATED: dict[str, object] = {**NEEDS, "excludes": ("sift2_linear",)}


@dataclass(frozen=True, repr=False, eq=False)
class Sift2Options:
    """Options of SIFT2, a part of :class:`tistreamlines.Parameters`, with the defaults of MRtrix3's tcksift2."""

    sift2: OneOrMore[tuple[ImageLike, PathLike]] | None = option(
        None, OUTPUT, "Weigh the streamlines by SIFT2, so that their density in each fixel of FOD comes near that of "
        "its fibres, and write their weights to FILE, .txt, as MRtrix3's tcksift2: in the order of the streamlines. "
        "FOD is an image of fibre orientation distributions, tracked for those that streamlines follow, or a folder "
        "of fixels as fod2fixel writes it.", unit="FOD FILE", words=(TRACKED,),
        absent="not written", excludes=("part",), affects="run",
    )
    sift2_basis: str | None = option(
        None, OUTPUT, "Basis of the harmonics of --sift2: tournier07 of MRtrix3, or DIPY's descoteaux07_legacy.",
        unit="NAME", absent="tournier07 for a .mif; other files need it", **NEEDS,
    )
    sift2_act: ImageLike | None = option(
        None, OUTPUT, "Five-tissue-type (5TT) image, or a segmentation or a folder as for --act: a voxel counts for "
        "--sift2 with the square of its share of white matter.", unit="FILE",
        absent="the image of --act, if there is one", excludes=("sift2_proc_mask",), **NEEDS,
    )
    sift2_proc_mask: ImageLike | None = option(
        None, OUTPUT, "How much each voxel counts for --sift2; an image on any grid.", unit="FILE",
        absent="1 for each voxel with an FOD", excludes=("sift2_act",), **NEEDS,
    )
    sift2_csv: PathLike | None = option(
        None, OUTPUT, "Table of the iterations of --sift2, with the columns of tcksift2 -csv.", unit="FILE",
        absent="not written", **ITERATED,
    )
    sift2_mu: PathLike | None = option(
        None, OUTPUT, "File for the proportionality coefficient mu, as of tcksift2 -out_mu.", unit="FILE",
        absent="not written; the record has it", **NEEDS,
    )
    sift2_coeffs: PathLike | None = option(
        None, OUTPUT, "File for the coefficients, the logarithms of the weights, as of tcksift2 -out_coeffs.",
        unit="FILE", absent="not written", **NEEDS,
    )
    sift2_linear: bool = option(
        False, OUTPUT, "Estimate the weights of --sift2 in one pass, without iterations.", **NEEDS
    )
    sift2_reg_tikhonov: float = option(
        0.0, OUTPUT, "Factor of the regularisation of the coefficients of --sift2.", unit="factor", low=0, **ITERATED
    )
    sift2_reg_tv: float = option(
        0.1, OUTPUT, "Factor of the regularisation of distances between the coefficients of --sift2 and their mean in "
        "each fixel.", unit="factor", low=0, **ITERATED,
    )
    sift2_min_td_frac: float = option(
        0.1, OUTPUT, "A fixel takes no part in --sift2 if the density of its streamlines is less than this part of "
        "that of its fibres.", unit="share", low=0, high=1, **ITERATED,
    )
    sift2_min_iters: int = option(10, OUTPUT, "Fewest iterations of --sift2.", unit="iterations", low=0, **ITERATED)
    sift2_max_iters: int = option(1000, OUTPUT, "Most iterations of --sift2.", unit="iterations", low=1, **ITERATED)
    sift2_min_factor: float = option(
        0.0, OUTPUT, "Weights of --sift2 below this become 0.", unit="weight", low=0, high=1, **NEEDS
    )
    sift2_max_factor: float | None = option(
        None, OUTPUT, "Greatest weight of --sift2.", unit="weight", low=1, absent="22,026, which is e^10", **ITERATED
    )
    sift2_max_coeff_step: float = option(
        1.0, OUTPUT, "Greatest change of a coefficient in an iteration of --sift2.", unit="coefficient", low=0,
        above=True, **ITERATED,
    )
    sift2_min_cf_decrease: float = option(
        2.5e-5, OUTPUT, "Iterations of --sift2 go on while the cost falls by more than this part of the first one.",
        unit="share", low=0, high=1, **ITERATED,
    )
    sift2_fd_scale_gm: bool = option(
        False, OUTPUT, "Lower fibre densities where there is grey matter, as tcksift2 -fd_scale_gm. This needs five "
        "tissues.", **NEEDS,
    )
    sift2_fd_thresh: float = option(
        0.0, OUTPUT, "Fixels with less fibre density do not count for --sift2.", unit="density", low=0, **NEEDS
    )
    sift2_remove_untracked: bool = option(
        False, OUTPUT, "Fixels that no streamline visits do not count for --sift2.", **NEEDS
    )
    sift2_no_dilate_lut: bool = option(
        False, OUTPUT, "For --sift2, a streamline visits a fixel only where its direction lies within the lobe, as "
        "with tcksift2 -no_dilate_lut; by default, other directions belong to a lobe nearby. Fixels of a folder have "
        "the directions within 45 degrees.", **NEEDS,
    )
    sift2_make_null_lobes: bool = option(
        False, OUTPUT, "For --sift2, each voxel has one more fixel, of fibre density 0, which streamlines visit in "
        "directions outside all lobes, as with tcksift2 -make_null_lobes.", requires=("sift2_no_dilate_lut",),
        affects="run",
    )


@dataclass(frozen=True, repr=False, eq=False)
class DynamicOptions:
    """Options of dynamic seeding, a part of :class:`tistreamlines.Parameters`."""

    seed_dynamic: ImageLike | None = option(
        None, SEEDS, "Image of fibre orientation distributions, a folder of fixels, or tracked for the FODs that "
        "streamlines follow. Random seeds lie in the fixels, more of them where streamlines so far are too few for the "
        "fibre density, as with MRtrix3's tckgen -seed_dynamic. Each seed has one streamline, which starts in the "
        "direction of its fixel.",
        unit="FOD", words=(TRACKED,),
        absent="as --seed-mask", one_of="place of seeds",
        excludes=("seeds_per_voxel", "seed_grid", "seed_gmwmi", "seed_surface", "part"),
    )
    seed_dynamic_basis: str | None = option(
        None, SEEDS, "Basis of the harmonics of --seed-dynamic: tournier07 of MRtrix3, or DIPY's descoteaux07_legacy.",
        unit="NAME", absent="that of --sh-basis, or tournier07 for a .mif", **SEEDED,
    )
    seed_round: int | None = option(
        None, SEEDS, "Seeds of --seed-dynamic between two comparisons of streamlines with fibres, at least a fortieth "
        "of all seeds before.", unit="seeds", low=1, high=2**24,
        absent="a hundredth of --select, or else of the seeds; at least 50", **SEEDED,
    )


def bounds_of(options: Sift2Options) -> tuple[float, float]:
    """Return the least and the greatest coefficient, the logarithms of the factors; at the least one, a weight is 0."""
    least, most = options.sift2_min_factor, options.sift2_max_factor
    return math.log(least) if least else -math.inf, math.inf if most is None else math.log(most)


def files(options: Sift2Options) -> tuple[Path, ...]:
    """Return all files that are written, the weights first."""
    others = (options.sift2_csv, options.sift2_mu, options.sift2_coeffs)
    return (pairs_of(options.sift2)[0][1], *(Path(path) for path in others if path is not None))


def check(options: Sift2Options) -> None:
    """Raise a ParameterError if options do not fit each other."""
    if (count := len(values_of(options.sift2))) > 1:
        raise ParameterError(f"--sift2 is there {count} times: give one image of FODs and one file")
    if options.sift2_fd_scale_gm and tissues_of(options) is None:
        raise ParameterError("--sift2-fd-scale-gm needs five tissues: give --sift2-act")


def tissues_of(options: Sift2Options) -> TissueFiles | None:
    """Return the images of five tissues, those of tracking if no other is given, or None."""
    is_given = options.sift2_act is not None or options.sift2_proc_mask is not None
    return tissue_files(options, "sift2_act" if is_given else ACT)


def are_followed(options: Any) -> bool:
    """Return whether an option asks for the FODs, or the samples of fibres, that streamlines follow."""
    return TRACKED in (str(options.seed_dynamic), *(str(fod) for fod, _ in values_of(options.sift2)))
