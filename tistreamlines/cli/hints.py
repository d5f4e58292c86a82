"""Options of MRtrix3, DIPY and FSL that users may try, and the option of tistreamlines to use instead."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..errors import ParameterError

_SEEDING = "give --seed-mask FILE, or the points themselves with --seeds FILE"
# names without leading dashes, underscores as dashes, and what to do; tistreamlines' own names are not listed
_ADVICE = (
    ("act", "write --stopping act with --pve-wm, --pve-gm and --pve-csf, the tissue fractions"),
    ("algorithm", "write --dg prob (similar to iFOD2) or --dg det (similar to SD_STREAM)"),
    ("angle cthr", "write --max-angle, in degrees"),
    ("avoid", "write --exclude, a mask image or a sphere x,y,z,r"),
    ("backtrack crop-at-gmwmi", "--stopping act has neither: leave it out"),
    ("cutoff", "write --pmf-threshold, a fraction of the largest amplitude; --stop-threshold is for the --stop-map"),
    ("distthresh min-len minlen minlength", "write --min-length, in mm"),
    ("downsample", "tckresample -downsample does it afterwards"),
    ("fslgrad", "give the gradients as arguments: DWI BVALS BVECS"),
    ("grad", "give the gradients as arguments: DWI BVALS BVECS; mrconvert -export_grad_fsl BVECS BVALS makes them"),
    ("waypoints", "write --include, a mask image or a sphere x,y,z,r, once for each region"),
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
    ("seed-unidirectional unidirectional", "write --one-way"),
    ("seeds", "write --nseeds for a number, --seeds for a file of points"),
    ("step steplength", "write --step-size, in mm, or in voxels as 0.5vox"),
    ("stop", "write --stop-when-included; to end streamlines in a region, give a --stop-map that is 0 there"),
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
