"""What users of MRtrix, DIPY and FSL try on the command line, and what to do here."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..errors import ParameterError

_EDIT = "regions are not tested while tracking yet; write a .tck file, then tckedit in.tck out.tck"
_SEEDING = "give --seed-mask FILE, or the points themselves with --seeds FILE"
_NONE = "it has no counterpart: leave it out"
# by name, without dashes in front, underscores as dashes; where the name alone is ours, it is not listed
HINTS = {
    "act": "anatomical constraints are not there yet; --stop-map with the fraction of white matter, and "
    "--stop-threshold 0.5, end streamlines where it ends",
    "algorithm": "write --dg prob (nearest to iFOD2) or --dg det (to SD_STREAM)",
    "angle": "write --max-angle, in degrees",
    "avoid": f"{_EDIT} -exclude ROI",
    "backtrack": "it belongs to anatomical constraints, which are not there yet: leave it out",
    "crop-at-gmwmi": "it belongs to anatomical constraints, which are not there yet: leave it out",
    "cthr": "write --max-angle, in degrees",
    "cutoff": "write --pmf-threshold, a share of the greatest amplitude; --stop-threshold is that of the --stop-map",
    "distthresh": "write --min-length, in mm",
    "downsample": "tckresample -downsample does it afterwards",
    "exclude": f"{_EDIT} -exclude ROI",
    "fslgrad": "give the gradients as arguments: DWI BVALS BVECS",
    "grad": "give the gradients as arguments: DWI BVALS BVECS; mrconvert -export_grad_fsl BVECS BVALS makes them",
    "include": f"{_EDIT} -include ROI",
    "include-ordered": f"{_EDIT} -include_ordered ROI",
    "info": "write --verbose",
    "max-cross": "write --max-directions",
    "max-len": "write --max-length, in mm",
    "maxlen": "write --max-length, in mm",
    "maxlength": "write --max-length, in mm",
    "min-len": "write --min-length, in mm",
    "minlen": "write --min-length, in mm",
    "minlength": "write --min-length, in mm",
    "nbr-threads": "write --threads",
    "noprecomputed": _NONE,
    "nsamples": "write --nseeds, the number of seeds in all",
    "nsteps": "write --max-steps, each way from the seed",
    "nthreads": "write --threads",
    "out-tractogram": "write --output",
    "output-seeds": ".trx and .trk files keep the seeds: leave it out",
    "pam-files": "give the peaks or the harmonics as NIfTI, with --peaks or --sh",
    "power": _NONE,
    "random-seed": "write --rng-seed for the draws, --seed-seed for the seed points",
    "rk4": _NONE,
    "samples": _NONE,
    "save-seeds": ".trx and .trk files keep the seeds: leave it out",
    "seed-density": "write --nseeds, the number of seeds in all",
    "seed-dynamic": f"seeds do not follow a model of densities: {_SEEDING}",
    "seed-gmwmi": f"the interface of white and grey matter is not found: {_SEEDING}",
    "seed-grid-per-voxel": f"seeds lie at random: {_SEEDING}",
    "seed-image": "write --seed-mask",
    "seed-random-per-voxel": f"--nseeds is the number of seeds in all: {_SEEDING}",
    "seed-rejection": f"seeds are spread evenly: {_SEEDING}",
    "seed-sphere": f"spheres are not known: {_SEEDING}",
    "seed-unidirectional": "streamlines grow both ways from the seed: leave it out",
    "seeding-files": "write --seed-mask",
    "seeds": "write --nseeds for a number, --seeds for a file of points",
    "select": "the number of streamlines is that of the peaks at the seeds: write --nseeds; tckedit -number keeps some",
    "step": "write --step-size, in mm, or with vox behind it in voxels",
    "steplength": "write --step-size, in mm, or with vox behind it in voxels",
    "stop": "streamlines do not end at regions: give --stop-map a map that is 0 there",
    "stopping-files": "write --stop-map",
    "stopping-thr": "write --stop-threshold with --stop-map, else --fa-threshold",
    "tracking-method": "write --dg",
    "trials": _NONE,
    "unidirectional": "streamlines grow both ways from the seed: leave it out",
    "waypoints": f"{_EDIT} -include ROI",
}


def refuse_foreign(arguments: Iterable[str], known: Collection[str]) -> None:
    """Say what to do in place of the first option that another program has.

    Parameters
    ----------
    arguments : of the command line.
    known : options that the command has, dashes included.

    Raises
    ------
    ParameterError
        Where an option is another program's, or ours in another spelling, as ``-max_angle``.
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
            raise ParameterError(f"{given} is no option here: {advice}")
