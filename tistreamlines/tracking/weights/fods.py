"""The FODs, fixels or samples of fibres that an option names: an image, a folder, or what streamlines follow."""

from __future__ import annotations

from ...errors import ParameterError
from ...fit.fod_image import FodImage, load_fods
from ...io.fixel_images import FixelImages, fixel_files, load_fixels
from ...io.images import Tell, silent
from ...io.in_memory import source_of
from ...io.samples import Samples
from ...option import ImageLike
from .options import TRACKED

Fods = FodImage | FixelImages | Samples
NEEDED = "give an image of fibre orientation distributions instead of tracked"


def option_fods(
    fod: ImageLike, basis: str | None, followed: Fods | None, option: str, note: Tell | None = None
) -> Fods:
    """Return the FODs or the fixels of an option, or what streamlines follow where the option says so.

    Parameters
    ----------
    fod, basis : path or image, str
        The values of the option and of that of its basis; a folder of fixels has none.
    followed : FodImage or Samples, optional
        The input that streamlines follow, if they are tracked.
    option : str
        Name of the option on the command line.
    note : callable, optional
        Receives a warning if the functions of an image look as if they had another frame or basis. The input that
        streamlines follow was checked before.

    Raises
    ------
    InputError
        If the image, or one of the folder of fixels, is missing or damaged.
    ParameterError
        If the basis is not known, or is given for fixels, or if nothing is tracked.
    """
    if str(fod) != TRACKED:
        if (files := fixel_files(source_of("fod", fod))) is not None:
            if basis is not None:
                raise ParameterError(f"{option}-basis is one of harmonics, and {fod} has fixels: leave it out")
            return load_fixels(files)
        image = load_fods(fod, basis, option=f"{option}-basis", note=note or silent)
        if note is not None:
            for doubt in image.doubts():
                note(doubt)
        return image
    if followed is None:
        raise ParameterError(f"{option} tracked needs tistreamlines track: {NEEDED}")
    return followed
