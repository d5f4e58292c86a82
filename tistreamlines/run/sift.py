"""SIFT of tractograms that are there: some streamlines are kept, and written as another tractogram."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from ..aliases import Json
from ..backends import compiler_told, take_compiler
from ..devices import choose
from ..devices.threads import readers_awaited
from ..errors import InputError, OutputError, ParameterError
from ..io import drafts, sidecar, tractograms
from ..io.in_memory import source_of
from ..io.numbers import SUFFIX as NUMBERS
from ..io.subsets import write_subset
from ..io.tables import write_numbers
from ..kernels.products.lengths import UNITS
from ..option import ImageLike, flag
from ..options.parameters import Parameters
from ..options.signatures import check_keywords, list_keywords
from ..tracking.products.batch_work import lengths_of
from ..tracking.products.grid import Extent
from ..tracking.stopping.segmentation import TissueFiles
from ..tracking.weights.fixels import FixelRules, Fixels, fixels_of
from ..tracking.weights.fods import option_fods
from ..tracking.weights.gathering import VisitGathering
from ..tracking.weights.sift import SiftIteration, SiftRules, SiftSelection
from ..tracking.weights.sift import sift as select
from ..tracking.weights.visits import Visitor
from .fixels import check_number
from .hashes import doubts_of_places, hashing
from .log import Watcher
from .outputs import Outputs, check_name, check_names, reserved, taken_by
from .record import OURS, inputs_of, versions
from .record import tractogram as written
from .setup import bar_or

TARGETS, IMAGES, FILES = ("number", "ratio", "mu"), ("act", "proc_mask"), ("csv", "selection", "mu_file")
RUNNING = {"arch": "cpu", "compiler": "auto", "threads": None}
KEYWORDS = {
    **dict.fromkeys((*TARGETS, "sh_basis", *IMAGES)), "fd_scale_gm": False, "fd_thresh": 0.0,
    "remove_untracked": False, "no_dilate_lut": False, "make_null_lobes": False, **dict.fromkeys(FILES), **RUNNING,
}
NEEDS = {"fd_scale_gm": "act", "make_null_lobes": "no_dilate_lut"}
COLUMNS = "Iteration,Removed this iteration,Total removed,Remaining,Cost,TD,Mu,Recalculation"
FEW = 0.1  # share of streamlines that visit no fixel, above which a user is warned


class SiftOptions(TypedDict, total=False):
    """Options of the selection, of its files and of devices."""

    number: int | None
    ratio: float | None
    mu: float | None
    sh_basis: str | None
    act: ImageLike | None
    proc_mask: ImageLike | None
    fd_scale_gm: bool
    fd_thresh: float
    remove_untracked: bool
    no_dilate_lut: bool
    make_null_lobes: bool
    csv: PathLike[str] | str | None
    selection: PathLike[str] | str | None
    mu_file: PathLike[str] | str | None
    arch: str
    compiler: str
    threads: int | None


@dataclass(frozen=True, eq=False)
class SiftResult:
    """A selection of streamlines by SIFT.

    Parameters
    ----------
    kept : (n,) bool
        Which of the streamlines are kept.
    mu : float
        Proportionality coefficient: a length (mm) of the streamlines in a fixel times this is a fibre density.
    iterations : tuple
        The state at first and after each iteration: ``number``, ``removed``, ``streamlines`` that are left, ``cost`` of
        the densities, ``length`` in fixels (mm), ``mu``, and the ``reason`` why the iteration has ended.
    warnings : tuple of str
        Why the result may be wrong.

    Examples
    --------
    >>> import numpy as np
    >>> import tistreamlines as ts
    >>> result = ts.SiftResult(np.array([True, False, True]), 0.1, ())
    >>> len(result)
    2
    """

    kept: npt.NDArray[np.bool_]
    mu: float
    iterations: tuple[SiftIteration, ...]
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Return how many streamlines are kept."""
        return int(self.kept.sum())

    @property
    def _summary(self) -> Json:
        """The numbers of the selection for its record."""
        first, last = self.iterations[0], self.iterations[-1]
        return {
            "streamlines": len(self), "of": len(self.kept), "iterations": last.number, "mu": self.mu,
            "first_cost": first.cost, "cost": last.cost, "reason": last.reason,
        }

    def __str__(self) -> str:
        """Tell in a line how it went."""
        first, last = self.iterations[0], self.iterations[-1]
        share = last.cost / first.cost if first.cost else 0.0
        return (
            f"{len(self):,} of {len(self.kept):,} streamlines, {share:.1%} of the cost of the densities is left after "
            f"{last.number} iterations, mu {self.mu:.5g}"
        )


@list_keywords(KEYWORDS, whole=True)
def sift(
    tractogram: str | PathLike[str], fod: ImageLike, output: str | PathLike[str] | None = None, *, force: bool = False,
    watcher: Watcher | None = None, progress: bool = False, **options: Unpack[SiftOptions],
) -> SiftResult:
    """Select streamlines so that their density comes near that of fibres, as MRtrix3's ``tcksift``.

    Parameters
    ----------
    tractogram : str or Path
        A .trx, .trk or .tck of any program, in RASmm, or the folder of a .trx that is not packed.
    fod : str, Path or nibabel image
        Fibre orientation distributions, or the folder of their fixels.
    output : str or Path, optional
        Tractogram to write: .trx, .trk or .tck. Without an output, the result has only the selection.
    force : bool
        Overwrite existing files.
    watcher, progress : as for :func:`track`
        Messages.
    number : int, optional
        End when so many streamlines are left.
    ratio : float, optional
        End when the share of the cost by which it falls is less than this times the share of the streamlines' length
        that is removed for it.
    mu : float, optional
        End when the proportionality coefficient is greater. Without any of these, streamlines are removed until no
        removal lowers the cost enough.
    sh_basis : str, optional
        Basis of the harmonics, as for :func:`fixels`.
    act : str, Path or nibabel image, optional
        Five-tissue-type (5TT) image, a segmentation or a subject's folder: a voxel counts with the square of its share
        of white matter.
    proc_mask : str, Path or nibabel image, optional
        How much each voxel counts.
    fd_scale_gm : bool
        Lower fibre densities where there is grey matter; needs ``act``.
    fd_thresh : float
        Fixels with less fibre density do not count.
    remove_untracked : bool
        Fixels that no streamline visits do not count.
    no_dilate_lut : bool
        A streamline visits a fixel only where its direction lies within the lobe.
    make_null_lobes : bool
        Each voxel has one more fixel, of fibre density 0, for directions outside all lobes.
    csv, selection, mu_file : str or Path, optional
        Files for the iterations, for the selection (1 for a streamline that is kept, else 0, a line each), and for mu.
    arch, compiler, threads : str, str, int
        Where fixels and visits are found, as for :func:`map_tractogram`. The selection is the same.

    Returns
    -------
    SiftResult
        Which streamlines are kept, the proportionality coefficient, and the iterations.

    Raises
    ------
    ParameterError
        If an option is out of bounds, or if options cannot be combined.
    InputError
        If an input is missing or damaged, if there are fewer streamlines than are wanted, or if none of them visits a
        fixel.
    OutputError
        If an output exists, or cannot be written.
    DeviceError
        If the device is unavailable, or lacks the memory.
    TypeError
        If a keyword is not an option of this function.

    References
    ----------
    .. [1] Smith RE, Tournier JD, Calamante F, Connelly A. SIFT: Spherical-deconvolution informed filtering of
        tractograms. NeuroImage 67, 2013. doi:10.1016/j.neuroimage.2012.11.049

    Examples
    --------
    A fibre along z in each voxel, and six streamlines, of which four lie in one place:

    >>> import nibabel as nib
    >>> import numpy as np
    >>> import tistreamlines as ts
    >>> degrees = np.arange(0, 10, 2)
    >>> fod = np.zeros((3, 3, 20, 45))  # a fibre along z in each voxel
    >>> fod[..., degrees * (degrees + 1) // 2] = np.sqrt(2 * degrees + 1) * np.exp(-degrees * (degrees + 1) / 30)
    >>> lines = [np.float32([[x, 1, 0], [x, 1, 19]]) for x in (0, 1, 1, 1, 1, 2)]
    >>> nib.streamlines.save(nib.streamlines.Tractogram(lines, affine_to_rasmm=np.eye(4)), "lines.tck")
    >>> result = ts.sift("lines.tck", nib.Nifti1Image(fod, np.eye(4)), "few.tck", sh_basis="tournier07", number=3)
    >>> len(result), result.kept[[0, 5]].tolist()
    (3, [True, True])
    """
    check_keywords("sift", options, KEYWORDS)
    chosen: dict[str, Any] = KEYWORDS | options
    path, target = tractograms.check_tractogram(tractogram), None if output is None else Path(output)
    rules = _rules(chosen)
    running = Parameters.given({name: chosen[name] for name in RUNNING})
    sources = {"tractogram": path, "fod": source_of("fod", fod)}
    sources |= (images := {name: source_of(name, chosen[name]) for name in IMAGES if chosen[name] is not None})
    counted = FixelRules(
        TissueFiles((images["act"],)) if "act" in images else None, images.get("proc_mask"), chosen["fd_scale_gm"],
        not chosen["no_dilate_lut"], chosen["make_null_lobes"],
    )
    outputs, others = Outputs(target), {name: Path(chosen[name]) for name in FILES if chosen[name] is not None}
    check = partial(_check_outputs, outputs, others, taken_by(sources.values()), force=force)
    with readers_awaited(), bar_or(watcher, progress=progress) as display, reserved(outputs, check):
        display.stage("load")
        take_compiler(running.compiler)
        hashes, device, notes = hashing(sources), choose(running.arch), doubts_of_places(sources)
        fods = option_fods(sources["fod"], chosen["sh_basis"], None, "--sh", notes.append)
        display.stage("fixels")
        fixels = fixels_of(fods, device, running.threads, notes.append, counted, display.fixels)
        display.stage("map")
        visits, lengths = _visits(path, fixels, running)
        if not visits.count:
            raise InputError(f"{path}: has no streamlines")
        if rules.number is not None and rules.number > visits.count:
            raise InputError(f"{path}: has {visits.count:,} streamlines, fewer than --number {rules.number:,}")
        display.stage("select")
        selection = select(fixels, visits.parts, lengths, rules, threads=running.threads, watch=display.sifting)
        notes = [*tractograms.doubts_of_tractogram(path), *notes, *_doubts(str(fod), selection, rules)]
        result = SiftResult(selection.kept, selection.iterations[-1].mu, selection.iterations, tuple(notes))
        display.stage("write")
        with drafts.all_or_none([*outputs.main, *others.values()]):
            _write(result, others, force=force, threads=running.threads)
            if target is not None:
                space = tractograms.grid_of_tractogram(path) or fixels.table.space
                write_subset(path, target, result.kept, space, {"SIFT_mu": result.mu}, force=force)
                chosen |= {name: getattr(running, name) for name in RUNNING}
                chosen |= {name: str(chosen[name]) for name in images}
                record = {
                    "made_by": OURS, "versions": versions(), "device": device.as_dict(), "warnings": result.warnings,
                    "parameters": chosen, "result": result._summary, **compiler_told(device),
                    "inputs": inputs_of(sources, hashes()), "tractogram": written(target),
                }
                sidecar.write_record(sidecar.sidecar_path(target), record, force=force)
    return result


def _rules(chosen: Mapping[str, Any]) -> SiftRules:
    """Return the rules of the options; raise a ParameterError if these are out of bounds or exclude each other."""
    number = chosen["number"]
    if number is not None and (not isinstance(number, int | np.integer) or isinstance(number, bool) or number < 1):
        raise ParameterError(f"--number is {number!r}: give a whole number of at least 1")
    for name in ("ratio", "mu"):
        if chosen[name] is not None and not check_number(name, chosen[name]):
            raise ParameterError(f"{flag(name)} is 0: give a number above 0")
    if all(chosen[name] is not None for name in IMAGES):
        raise ParameterError(f"{' and '.join(map(flag, IMAGES))} exclude each other: give one of them")
    for name, needed in NEEDS.items():
        if chosen[name] and not chosen[needed]:
            raise ParameterError(f"{flag(name)} needs {flag(needed)}: give both or neither")
    threshold = check_number("fd_thresh", chosen["fd_thresh"])
    wanted = None if number is None else int(number)
    return SiftRules(wanted, chosen["ratio"], chosen["mu"], threshold, bool(chosen["remove_untracked"]))


def _check_outputs(outputs: Outputs, others: Mapping[str, Path], taken: Mapping[Path, str], *, force: bool) -> None:
    """Check that all files can be written, have names of their own, and replace no input."""
    target = outputs.tractogram
    if target is not None and target.suffix.lower() == NUMBERS:
        raise OutputError(f"{target}: holds no points: give a .trx, .trk or .tck")
    check_names(outputs, taken, force=force)
    files = [*outputs.main]
    for name, path in others.items():
        check_name(path, taken)
        drafts.check_target(path, force=force)
        if drafts.real_path(path) in set(map(drafts.real_path, files)):
            raise ParameterError(f"{flag(name)} {path}: is also the name of another output; give another name")
        files.append(path)


def _visits(path: Path, fixels: Fixels, running: Parameters) -> tuple[VisitGathering, npt.NDArray[np.float64]]:
    """Find the visits of all streamlines, and their lengths, mm."""
    step = tractograms.step_of_tractogram(path)
    if step is None:  # as for SIFT2
        extent = Extent()
        for batch in tractograms.stored_batches(path):
            extent.add(batch)
        step = extent.longest
    visitor = Visitor(fixels.table, step, choose(running.arch), running.threads)
    visits, lengths = VisitGathering(visitor, running.threads), [np.zeros(0)]
    for batch in tractograms.stored_batches(path):
        visits.add(batch)
        lengths.append(lengths_of(batch) / UNITS)
    visits.finish()
    return visits, np.concatenate(lengths)


def _doubts(fod: str, selection: SiftSelection, rules: SiftRules) -> Iterator[str]:
    """Yield why the result may be wrong."""
    count, last = len(selection.kept), selection.iterations[-1]
    if selection.idle > FEW * count:
        yield (
            f"{fod}: {selection.idle:,} of {count:,} streamlines visit no fixel that counts: check that FODs and "
            "streamlines lie in one space"
        )
    if not selection.reached:
        names = [f"{flag(name)} {value:,}" for name in TARGETS if (value := getattr(rules, name)) is not None]
        yield (
            f"{' and '.join(names)}: not reached, since with {last.streamlines:,} streamlines left no removal lowers "
            "the cost enough"
        )


def _write(result: SiftResult, files: Mapping[str, Path], *, force: bool, threads: int | None) -> None:
    """Write the files besides the tractogram."""
    if "csv" in files:
        count = len(result.kept)
        with drafts.completed(files["csv"], force=force) as draft:
            rows = (
                f"{row.number},{row.removed},{count - row.streamlines},{row.streamlines},{row.cost:.10g},"
                f"{row.length:.10g},{row.mu:.10g},{row.reason}\n" for row in result.iterations
            )
            draft.write_text("".join((COLUMNS + "\n", *rows)), encoding="ascii", newline="\n")
    if "selection" in files:
        write_numbers(files["selection"], result.kept, force=force, threads=threads)
    if "mu_file" in files:
        write_numbers(files["mu_file"], [result.mu], force=force)
