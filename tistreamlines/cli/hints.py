"""Options of MRtrix3, DIPY and FSL that users may try, and the option of tistreamlines to use instead.

The tables of equivalents in the guides are made from these (``docs/generate.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ..errors import ParameterError


@dataclass(frozen=True)
class Hint:
    """What to do in place of options of other programs.

    Parameters
    ----------
    advice : what to do.
    tckgen, dipy_track, probtrackx2 : the options of each program, without leading dashes, with dashes for underscores.
        Options that tistreamlines has too are not listed, unless they mean something else here.
    """

    advice: str
    tckgen: str = ""
    dipy_track: str = ""
    probtrackx2: str = ""

    def of(self, program: str) -> list[str]:
        """Return the options of a program."""
        return getattr(self, program).split()


HINTS = (
    Hint("write --dg ifod1, --dg ifod2 or --dg sd_stream", tckgen="algorithm"),
    Hint("write --dg", dipy_track="tracking-method"),
    Hint("write --nseeds for a number, --seeds for a file of points", tckgen="seeds"),
    Hint("write --max-seeds, the greatest number of seeds of --select; each seed is tried once",
         tckgen="max-attempts-per-seed"),
    Hint("write --seeds-per-voxel, or --nseeds for the number of seeds in all", probtrackx2="nsamples"),
    Hint("write --seed-mask", tckgen="seed-image", dipy_track="seeding-files"),
    Hint("write --seed-image, a map to which the number of seeds is proportional; no draw is rejected",
         tckgen="seed-rejection"),
    Hint("write --seed-mask FILE --seeds-per-voxel NUMBER", tckgen="seed-random-per-voxel"),
    Hint("write --seed-mask FILE --seed-grid NUMBER", tckgen="seed-grid-per-voxel"),
    Hint("write --seed-grid for seeds on a grid, or --nseeds for the number of random seeds in all",
         dipy_track="seed-density"),
    Hint("write --seed-gmwmi with the five tissues of -act; a mask of 5tt2gmwmi is given with --seed-image",
         tckgen="seed-gmwmi"),
    Hint("give --seeds FILE, whose rows x y z dx dy dz have a point and a direction", tckgen="seed-direction"),
    Hint("there is no threshold for seeds: give --seed-mask FILE, the voxels with high amplitudes",
         tckgen="seed-cutoff"),
    Hint("write --one-way", tckgen="seed-unidirectional", dipy_track="unidirectional"),
    Hint(".trx and .trk files contain the seeds: leave it out", tckgen="output-seeds", dipy_track="save-seeds"),
    Hint("write --max-angle, in degrees", tckgen="angle", probtrackx2="cthr"),
    Hint("write --step-size, in mm, or in voxels as 0.5vox", tckgen="step", probtrackx2="steplength"),
    Hint("write --max-steps, the limit in each direction from the seed", probtrackx2="nsteps"),
    Hint("write --min-length, in mm, or in voxels as 5vox, which is the default", tckgen="minlength",
         dipy_track="min-len minlen", probtrackx2="distthresh"),
    Hint("write --max-length, in mm, or in voxels as 100vox", tckgen="maxlength", dipy_track="max-len maxlen"),
    Hint("write --cutoff with --dg ifod1, ifod2 or sd_stream, --pmf-threshold, a share of the greatest sample, with "
         "others; --stop-threshold is for the --stop-map", tckgen="cutoff"),
    Hint("write --stop-map", dipy_track="stopping-files"),
    Hint("write --stop-threshold if you give --stop-map, otherwise --fa-threshold", dipy_track="stopping-thr"),
    Hint("write --stop-mask FILE", dipy_track="use-binary-mask"),
    Hint("write --mask with --sh and --dg ifod1, ifod2 or sd_stream, whose streamlines end outside it, --limit-mask "
         "with others", tckgen="mask"),
    Hint("write --seed-mask FILE; the seed of random numbers is --rng-seed", probtrackx2="seed"),
    Hint("write --seeds-to-targets SEEDS FILE with --targets, once for each mask",
         probtrackx2="targetmasks os2t s2tastext"),
    Hint("leave it out: masks may have any grid, and lie in the scanner space of the samples; applywarp brings others "
         "there", probtrackx2="xfm invxfm seedref"),
    Hint("streamlines are not checked for loops: leave it out", probtrackx2="loopcheck"),
    Hint("write --min-f", probtrackx2="fibthresh"),
    Hint("write --use-f", probtrackx2="usef"),
    Hint("write --random-fibre", probtrackx2="randfib"),
    Hint("write --modified-euler", probtrackx2="modeuler"),
    Hint("seeds are random in their voxels: leave it out", probtrackx2="sampvox"),
    Hint("write --include-ordered with --one-way", probtrackx2="wayorder"),
    Hint("all regions of --include have to be visited; for one of several, join their masks", probtrackx2="waycond"),
    Hint("write --connectome LABELS FILE", probtrackx2="network"),
    Hint("write --seed-matrix", probtrackx2="omatrix1 omatrix2"),
    Hint("write --voxel-matrix", probtrackx2="omatrix3"),
    Hint("write --density FILE", probtrackx2="opd"),
    Hint("write --force", probtrackx2="forcedir"),
    Hint("write --include, a mask image or a sphere x,y,z,r, once for each region", probtrackx2="waypoints"),
    Hint("write --exclude, a mask image or a sphere x,y,z,r", probtrackx2="avoid"),
    Hint("write --stop-when-included; to end streamlines in a region, give a --stop-map that is 0 there",
         tckgen="stop", probtrackx2="stop"),
    Hint("write --max-directions", dipy_track="max-cross"),
    Hint("write --sphere default, full or small", dipy_track="sphere-name"),
    Hint("write --rng-seed for tracking, --seed-seed for the placement of seeds", dipy_track="random-seed",
         probtrackx2="rseed"),
    Hint("give the peaks or the spherical harmonics as an image, with --peaks or --sh", dipy_track="pam-files"),
    Hint("give the series as .mif, whose gradients are read; mrconvert -grad FILE DWI dwi.mif makes it", tckgen="grad"),
    Hint("give the gradients as arguments: DWI BVALS BVECS", tckgen="fslgrad"),
    Hint("there is no such option here: leave it out", tckgen="config debug noprecomputed rk4",
         dipy_track="seed-buffer-fraction"),
    Hint("write --output", dipy_track="out-dir out-tractogram", probtrackx2="dir out"),
    Hint("write --threads", tckgen="nthreads", dipy_track="nbr-threads"),
    Hint("write --verbose", tckgen="info"),
    Hint("tistreamlines --version tells the version", tckgen="version"),
)
PROGRAMS = ("tckgen", "dipy_track", "probtrackx2")
TRACKS = "--dg"  # an option of the command that tracks alone
ADVICE = {name: hint.advice for hint in HINTS for program in PROGRAMS for name in hint.of(program)}


def refuse_foreign(arguments: Iterable[str], known: Collection[str]) -> None:
    """Raise an error with advice at the first option that belongs to another program.

    Parameters
    ----------
    arguments : iterable of str
        Arguments of the command line.
    known : collection of str
        Options of the command, with their dashes.

    Raises
    ------
    ParameterError
        If an option belongs to another program, or is misspelled, such as ``-max_angle``.
    """
    for argument in arguments:
        if argument == "--":
            return
        given = argument.partition("=")[0]
        name = given.lstrip("-").replace("_", "-").lower()
        if not given.startswith("-") or given in known or len(name) < 2:
            continue
        own = f"--{name}"
        spelling = f"write {own}" if own in known else None
        # advice is about tracking; elsewhere, an option of the command's own is meant
        advice = (ADVICE.get(name) or spelling) if TRACKS in known else (spelling or ADVICE.get(name))
        if advice is not None:
            raise ParameterError(f"{given} is not an option of tistreamlines: {advice}")
