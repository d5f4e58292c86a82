"""Options of MRtrix3, DIPY and FSL that users may try, and the option of tistreamlines to use instead."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..errors import ParameterError

_EDIT = "tracking has no include or exclude regions yet; write a .tck file, then run tckedit in.tck out.tck"
_SEEDING = "give --seed-mask FILE, or the points themselves with --seeds FILE"
# names without leading dashes, underscores as dashes, and what to do; tistreamlines' own names are not listed
_ADVICE = (
    ("act", "anatomical constraints are not available yet; a white-matter fraction as --stop-map with "
     "--stop-threshold 0.5 stops streamlines at the edge of white matter"),
    ("algorithm", "write --dg prob (similar to iFOD2) or --dg det (similar to SD_STREAM)"),
    ("angle cthr", "write --max-angle, in degrees"),
    ("avoid exclude", f"{_EDIT} -exclude ROI"),
    ("backtrack crop-at-gmwmi", "it belongs to anatomical constraints, which are not there yet: leave it out"),
    ("cutoff", "write --pmf-threshold, a fraction of the largest amplitude; --stop-threshold is for the --stop-map"),
    ("distthresh min-len minlen minlength", "write --min-length, in mm"),
    ("downsample", "tckresample -downsample does it afterwards"),
    ("fslgrad", "give the gradients as arguments: DWI BVALS BVECS"),
    ("grad", "give the gradients as arguments: DWI BVALS BVECS; mrconvert -export_grad_fsl BVECS BVALS makes them"),
    ("include waypoints", f"{_EDIT} -include ROI"),
    ("include-ordered", f"{_EDIT} -include_ordered ROI"),
    ("info", "write --verbose"),
    ("max-cross", "write --max-directions"),
    ("max-len maxlen maxlength", "write --max-length, in mm"),
    ("nbr-threads nthreads", "write --threads"),
    ("noprecomputed power rk4 samples trials", "there is no such option here: leave it out"),
    ("nsamples", "write --seeds-per-voxel, or --nseeds for the number of seeds in all"),
    ("nsteps", "write --max-steps, the limit in each direction from the seed"),
    ("out-tractogram", "write --output"),
    ("output-seeds save-seeds", ".trx and .trk files contain the seeds: leave it out"),
    ("pam-files", "give the peaks or the spherical harmonics as NIfTI, with --peaks or --sh"),
    ("random-seed", "write --rng-seed for tracking, --seed-seed for the placement of seeds"),
    ("seed-density", "write --seed-grid for seeds on a grid, or --nseeds for the number of random seeds in all"),
    ("seed-dynamic", f"dynamic seeding is not available: {_SEEDING}"),
    ("seed-gmwmi", f"the grey-white matter interface is not computed: {_SEEDING}"),
    ("seed-grid-per-voxel", "write --seed-mask FILE --seed-grid NUMBER"),
    ("seed-image seeding-files", "write --seed-mask"),
    ("seed-random-per-voxel", "write --seed-mask FILE --seeds-per-voxel NUMBER"),
    ("seed-rejection", "write --seed-image, a map to which the number of seeds is proportional"),
    ("seed-unidirectional unidirectional", "streamlines always grow in both directions from the seed: leave it out"),
    ("seeds", "write --nseeds for a number, --seeds for a file of points"),
    ("select", "each peak at a seed starts one streamline: write --nseeds; tckedit -number selects some afterwards"),
    ("step steplength", "write --step-size, in mm, or in voxels as 0.5vox"),
    ("stop", "there are no stop regions: give a --stop-map that is 0 in the region"),
    ("stopping-files", "write --stop-map"),
    ("stopping-thr", "write --stop-threshold if you give --stop-map, otherwise --fa-threshold"),
    ("tracking-method", "write --dg"),
)  # fmt: skip
HINTS = {name: advice for names, advice in _ADVICE for name in names.split()}


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
        advice = HINTS.get(name) or (f"write {own}" if own in known else None)
        if advice is not None:
            raise ParameterError(f"{given} is not an option of tistreamlines: {advice}")
