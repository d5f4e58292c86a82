"""BIDS names for the outputs of a run, and the metadata that go with them.

Tractograms follow the proposal BEP046 and maps BEP016, as far as these are public (``docs/bids.md``).
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from ..aliases import Json
from ..errors import ParameterError
from ..io import sidecar
from ..io.drafts import explained
from ..kernels.stop_reasons import DROPPED
from ..option import flag, record_value
from ..options.definitions import is_word
from ..options.option_groups import SEED_FA
from ..options.parameters import Parameters
from ..space.batch import Space
from ..tracking.registry import METHODS, PRODUCTS
from ..tracking.sources import FITTED
from ..tracking.stopping.segmentation import tissue_files
from .needs import limits_at_mask, stops_at_mask

BIDS_VERSION = "1.10.0"
AUTO = "auto"  # the file of a product that gets its BIDS name
NAME = re.compile(r"(sub-[a-zA-Z0-9+]+(?:_[a-zA-Z]+-[a-zA-Z0-9+]+)*)_dwi(?:\.nii|\.nii\.gz|\.mif|\.mif\.gz|\.mih)")
WHOLE, ONCE = "tract-wholebrain", ("include", "include_ordered", "exclude", "ends_in")
DESCRIPTIONS = {
    "density": "Number of streamlines that pass through each voxel",
    "rejected": "Number of streamlines that are dropped in each voxel, by reason: "
    + ", ".join(reason.name.lower() for reason in DROPPED),
}


def named(dwi: object, output: Path | None, parameters: Parameters) -> tuple[Path, Parameters]:
    """Return the BIDS name of the tractogram, and the options with those of products whose file is ``auto``.

    Parameters
    ----------
    dwi : str, Path or anything else
        Diffusion series, whose name has the entities.
    output : Path or None
        Tractogram besides, which is an error.
    parameters : Parameters
        Options, of which ``bids_out`` is the folder of the derivative.

    Raises
    ------
    ParameterError
        If the series has no BIDS name, or if an output is given as well.
    """
    assert parameters.bids_out is not None
    if output is not None:
        raise ParameterError(f"--bids-out names the tractogram: leave out --output {output}, or --bids-out")
    file = Path(dwi).name if isinstance(dwi, str | Path) else None
    matched = None if file is None else NAME.fullmatch(file)
    if matched is None:
        fault = "DWI is not a file" if file is None else f"{file} is no BIDS name"
        raise ParameterError(f"--bids-out takes the names from DWI, and {fault}: name it like sub-01_dwi.nii.gz, or "
                             "give --output")
    entities = dict(part.split("-", 1) for part in matched[1].split("_"))
    space = entities.pop("space", None)
    entities.pop("desc", None)  # of the preprocessed series, not of files made from it
    start = [f"{name}-{label}" for name, label in entities.items()] + ([f"space-{space}"] if space else [])
    levels = [f"{name}-{entities[name]}" for name in ("sub", "ses") if name in entities]
    folder = Path(parameters.bids_out, *levels, "dwi")
    whole = [] if any(getattr(parameters, name) is not None for name in ONCE) else [WHOLE]
    tractogram = folder / ("_".join([*start, *whole, f"track-{parameters.dg}", "tractogram"]) + ".trx")
    maps = {
        name: folder / "_".join([*start, f"model-{parameters.model}", f"desc-{parameters.dg}", f"param-{name}",
                                 f"dwimap{row.suffixes[0]}"])
        for name, row in PRODUCTS.items() if getattr(parameters, name) == AUTO
    }
    return tractogram, parameters.changed(**maps)


@contextmanager
def made_folders(output: Path) -> Generator[None, None, None]:
    """Make the folders of an output; new ones that stay empty, as after an error, are removed at the end."""
    missing = [folder for folder in output.parents if not folder.exists()]
    with explained(output):
        output.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        for folder in missing:
            with suppress(OSError):  # not empty
                folder.rmdir()


def complete(parameters: Parameters, files: Mapping[str, tuple[Path, ...]]) -> None:
    """Write the sidecars of maps, and the description of the derivative if there is none.

    Parameters
    ----------
    parameters : Parameters
        Options of the run.
    files : mapping
        Files of products, by the name of their row.
    """
    from .. import __version__

    assert parameters.bids_out is not None
    for name, (path, *_) in files.items():
        if path.name.endswith(suffix := f"_dwimap{PRODUCTS[name].suffixes[0]}"):
            beside = path.with_name(path.name.removesuffix(suffix) + "_dwimap.json")
            content = {
                "Description": DESCRIPTIONS.get(name, f"The product of {flag(name)}"),
                "Model": {"Description": f"{METHODS[parameters.dg].title} tractography, model {parameters.model}"},
            }
            sidecar.write_json(beside, content)
    described = Path(parameters.bids_out) / "dataset_description.json"
    if not described.exists():
        content = {
            "Name": "Tractography", "BIDSVersion": BIDS_VERSION, "DatasetType": "derivative",
            "GeneratedBy": [{"Name": "tistreamlines", "Version": __version__}],
        }
        sidecar.write_json(described, content)


def metadata(parameters: Parameters, dwi: object, space: Space, step_mm: float) -> Json:
    """Return the fields that BEP046 has for the sidecar of a tractogram.

    Parameters
    ----------
    parameters : Parameters
        Options of the run.
    dwi : path
        Diffusion series.
    space : Space
        Its grid.
    step_mm : float
        Step size, mm.
    """
    chosen, method = parameters, METHODS[parameters.dg]
    truncated = chosen.max_length is not None and chosen.too_long == "truncate"
    longest = {"MaximumLength": chosen.max_mm(space.voxel_sizes)}
    propagation = {
        "Algorithm": {"Name": method.title, "Description": method.use}, "AnglePerStep": chosen.max_angle,
        "Interpolation": "Linear", "InterpolationOrder": 0, "Source": str(dwi), "StepSize": step_mm,
    }
    acceptance = {
        "InclusionRegions": chosen.include, "OrderedInclusionRegions": chosen.include_ordered,
        "ExclusionRegions": chosen.exclude, "MinimumLength": chosen.min_mm(space.voxel_sizes),
    } | ({} if truncated else longest)
    counted = chosen.seeds_per_voxel or chosen.seed_grid or chosen.seeds_per_vertex or chosen.seeds is not None
    seeds = None if counted else chosen.nseeds
    density = {"Seeds": chosen.max_seeds or seeds, "AcceptedStreamlines": chosen.select}
    return {
        "Name": f"tistreamlines, {method.title}",
        "StreamlineSeeding": _known(_seeding(chosen, dwi)),
        "StreamlinePropagation": _known(propagation),
        "StreamlineTermination": _known(_termination(chosen, dwi) | (longest if truncated else {})),
        "StreamlineAcceptanceCriteria": _known(acceptance),
        "StreamlineReconstructionDensity": _known(density),
    }


def _known(fields: Mapping[str, object]) -> Json:
    """Return the fields that have a value, as records have it."""
    return {name: record_value(value) for name, value in fields.items() if value is not None}


def _seeding(chosen: Parameters, dwi: object) -> Json:
    if chosen.seed_sphere is not None:
        return {"Sources": [{"Type": "Sphere"}]}
    gmwmi, dynamic = tissue_files(chosen, "seed_gmwmi"), chosen.seed_dynamic  # words of theirs stand for other files
    if dynamic is not None and is_word("seed_dynamic", dynamic):
        dynamic = dwi if chosen.source == FITTED else getattr(chosen, chosen.source)
    places = (
        chosen.seeds, chosen.seed_surface, None if gmwmi is None else gmwmi.files, chosen.seed_mask, chosen.seed_image,
        dynamic,
    )
    place = next((source for source in places if source is not None), None)
    kinds = (
        (chosen.seeds, "CountPerElement", 1),
        (chosen.seeds_per_vertex, "CountPerElement", chosen.seeds_per_vertex),
        (chosen.seed_image if chosen.seed_gmwmi is None else None, "RejectionSampling", None),
        (chosen.seeds_per_voxel, "RandomPerElement", chosen.seeds_per_voxel),
        (chosen.seed_grid, "GridPerElement", (chosen.seed_grid or 0) ** 3),
    )
    kind, per_element = next(((kind, count) for option, kind, count in kinds if option is not None), ("Random", None))
    common = {"SeedsPerElement": per_element, "Unidirectional": chosen.one_way}
    files = place if isinstance(place, tuple) else (dwi if place is None else place,)
    sources = [_known({"Type": kind, "Source": str(file), **common}) for file in files]
    rule = [{"Metric": "fractional anisotropy", "Source": str(dwi), "Threshold": SEED_FA}] if place is None else None
    return {"Sources": sources, "AcceptanceCriteria": rule}


def _termination(chosen: Parameters, dwi: object) -> Json:
    ends = stops_at_mask(chosen) or limits_at_mask(chosen)
    masks = _present(chosen.mask if ends else None, chosen.stop_mask, chosen.limit_mask)
    files = chosen.inputs()  # which have no tissues of the fit
    maps = ("act", "pve", "pve_wm", "pve_gm", "pve_csf", "sgm", "include_map", "exclude_map")
    tissues = (files.get(name) for name in maps)
    criteria: Json = {"AnglePerStep": chosen.max_angle, "Masks": masks or None}
    if segmentation := _present(*tissues):
        criteria["AnatomicalSegmentation"] = segmentation[0] if len(segmentation) == 1 else segmentation
    if chosen.applies("stop_threshold"):
        metric = "fractional anisotropy" if chosen.stop_map is None else "stop map"
        source = str(dwi if chosen.stop_map is None else chosen.stop_map)
        criteria["Anisotropy"] = [{"Metric": metric, "Source": source, "Threshold": chosen.threshold}]
    return criteria | ({"SatisfiedAllAcceptance": True} if chosen.stop_when_included else {})


def _present(*values: object) -> tuple[object, ...]:
    """Return the values without None."""
    return tuple(value for value in values if value is not None)
