"""The FODs, or the samples of fibres, that an option names: an image, or what streamlines follow."""

from __future__ import annotations

from ...errors import ParameterError
from ...fit.fod_image import FodImage, load_fods
from ...io.images import Tell, silent
from ...io.samples import Samples
from ...option import ImageLike
from .options import TRACKED

Fods = FodImage | Samples
NEEDED = "give an image of fibre orientation distributions instead of tracked"


def option_fods(
    fod: ImageLike, basis: str | None, followed: Fods | None, option: str, note: Tell | None = None
) -> Fods:
    """Return the image of FODs of an option, or what streamlines follow where the option says so.

    Parameters
    ----------
    fod, basis : path or image, str
        The values of the option and of that of its basis.
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
        If the image is missing or damaged.
    ParameterError
        If the basis is not known, or if nothing is tracked.
    """
    if str(fod) != TRACKED:
        image = load_fods(fod, basis, option=f"{option}-basis", note=note or silent)
        if note is not None:
            for doubt in image.doubts():
                note(doubt)
        return image
    if followed is None:
        raise ParameterError(f"{option} tracked needs tistreamlines track: {NEEDED}")
    return followed
