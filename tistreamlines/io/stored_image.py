"""Values of an image as its file stores them: unpacked once, and converted to float32 on all cores.

NumPy and the decompressor compute in few long calls without Python's lock, beside a thread that compiles kernels.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..aliases import Array, SpatialImage
from ..devices import usable_cores
from ..devices.threads import end_tasks, thread_pool
from .ahead import BEYOND, GROUP
from .unpacking import GZIPPED, bytes_unpacked, content_of, volumes_in_turn

if TYPE_CHECKING:
    from nibabel.arrayproxy import ArrayProxy

# bytes of values that a thread converts at a time: a cache should hold them, but after each it waits for Python's lock
BLOCK = 1 << 22
LINE = 64  # bytes
Scaling = list[tuple[np.ufunc, Array]]  # operations, each with a number
Image: TypeAlias = "SpatialImage | StoredImage"


class Gradients(NamedTuple):
    """The gradients that a file of a series has with it.

    Parameters
    ----------
    bvals : (n,) float64
        s/mm^2.
    bvecs : (n, 3) float64
        Unit directions along the voxel axes; those of b0s may have no length.
    """

    bvals: npt.NDArray[np.float64]
    bvecs: npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StoredImage:
    """An image of a format that nibabel does not know, with the members of a nibabel image that are used here.

    Parameters
    ----------
    shape : tuple of int
        Of three axes or more.
    affine : (4, 4) float64
        Voxel coordinates (centre of a voxel = integer) to RASmm.
    kind : numpy.dtype
        Type of the stored values.
    load : callable
        Returns the stored values in that shape, of any strides.
    slope, inter : float
        A value is slope * stored + inter.
    gradients : callable, optional
        Returns those of the volumes, if the file has any; what a map keeps of the series it came from may be wrong.
    header : mapping
        ``sform_code`` and ``qform_code`` of 0 if the file does not say where the image lies.
    """

    shape: tuple[int, ...]
    affine: npt.NDArray[np.float64]
    kind: np.dtype
    load: Callable[[], Array]
    slope: float = 1.0
    inter: float = 0.0
    gradients: Callable[[], Gradients] | None = None
    header: Mapping[str, int] = field(default_factory=dict)

    def get_data_dtype(self) -> np.dtype:
        """Return the type of the stored values."""
        return self.kind

    @property
    def dataobj(self) -> Array:
        """The values, scaled."""
        values = self.load()
        for step, number in _scaling(self.kind, self.slope, self.inter):
            values = step(values, number)
        return values


def unpack_image(image: Image) -> Image:
    """Return a compressed image of nibabel with its files unpacked in memory, any other as it is."""
    if isinstance(image, StoredImage):
        return image
    from nibabel.openers import ImageOpener

    endings = ImageOpener.compress_ext_map
    holders = [part for part in image.file_map.values() if Path(part.filename or "").suffix.lower() in endings]
    size = getattr(image.dataobj, "offset", 0) + math.prod(image.shape) * image.get_data_dtype().itemsize
    for holder in holders:
        holder.fileobj = BytesIO(content_of(str(holder.filename), size + BEYOND))
    return type(image).from_file_map(image.file_map) if holders else image


def floats(
    image: Image, limit: float, inside: npt.NDArray[np.bool_] | None = None
) -> tuple[npt.NDArray[np.float32], bool]:
    """Return the values of an image of four axes or more, scaled as its header says.

    A large gzip file is unpacked some volumes at a time, and meanwhile the volumes before are converted.

    Parameters
    ----------
    image : nibabel.spatialimages.SpatialImage or StoredImage
    limit : float
        Largest absolute value that is expected, above any of an integer type.
    inside : (x, y, z) bool, optional
        Voxels whose values are wanted; those of others are 0, and take no memory.

    Returns
    -------
    values : (x, y, z, n) float32, C-contiguous
        Values beyond float32 are infinite.
    expected : bool
        Whether no value is NaN or beyond the limit.
    """
    if (proxy := _packed_proxy(image)) is not None:
        x, y, z, *others = proxy.shape
        shape, scaling = (x, y, z, math.prod(others)), _scaling(proxy.dtype, proxy.slope, proxy.inter)
        with suppress(EOFError):
            parts = volumes_in_turn(str(proxy.file_like), shape, proxy.dtype, proxy.offset)
            return _converted(shape, parts, scaling, limit, inside)
    # elsewhere, in a gzip file of several members, or in a damaged one, of which this says what is wrong
    stored, scaling = _storage_of(unpack_image(image))
    stored = stored.reshape(*stored.shape[:3], -1)
    return _converted(stored.shape, [stored], scaling, limit, inside)


def volumes_of(image: Image) -> Generator[npt.NDArray[np.float32], None, None]:
    """Return the volumes (x, y, z) of an image of four axes one by one, scaled as its header says.

    Memory holds the whole image only if that is small, or packed in another way than :func:`floats` reads in turn.
    """
    done = 0
    if (proxy := _packed_proxy(image)) is not None:
        scaling = _scaling(proxy.dtype, proxy.slope, proxy.inter)
        with suppress(EOFError):
            for part in volumes_in_turn(str(proxy.file_like), proxy.shape, proxy.dtype, proxy.offset):
                for stored in np.moveaxis(part, 3, 0):
                    yield _scaled(stored, scaling)
                    done += 1
            return
    stored, scaling = _storage_of(unpack_image(image))
    for volume in np.moveaxis(stored, 3, 0)[done:]:
        yield _scaled(volume, scaling)


def _scaled(stored: Array, scaling: Scaling) -> npt.NDArray[np.float32]:
    """Return the values of a volume."""
    with np.errstate(all="ignore"):  # values beyond float32 are infinite
        for step, number in scaling:
            stored = step(stored, number)
        return stored.astype(np.float32)


def _converted(
    shape: tuple[int, ...], parts: Iterable[Array], scaling: Scaling, limit: float,
    inside: npt.NDArray[np.bool_] | None,
) -> tuple[npt.NDArray[np.float32], bool]:
    """Convert an image (x, y, z, n) whose volumes come in parts; each is left alone when the next but one is taken."""
    values, expected, first = np.empty(shape, np.float32) if inside is None else _zeros(shape), True, 0
    before: list[Future[bool]] = []
    converting: list[Future[bool]] = []
    try:
        for stored in parts:
            target = values[..., first : first + stored.shape[3]]
            convert = partial(_convert, stored, target, scaling, limit, inside)
            before, converting, first = converting, [], first + stored.shape[3]
            for place in _places(stored):
                try:
                    converting.append(thread_pool("read", usable_cores()).submit(convert, place))
                except RuntimeError:  # the system starts no more threads
                    expected &= convert(place)
            expected &= all([task.result() for task in before])
        return values, all([task.result() for task in converting]) and expected
    except BaseException:  # the file may be mapped into memory, so no thread may go on to read it
        end_tasks([*before, *converting])
        raise


def _zeros(shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Return zeros that take memory where they are written to, in small pages: NumPy asks for pages of 2 MB."""
    size = math.prod(shape) * np.dtype(np.float32).itemsize
    if not hasattr(mmap, "MADV_NOHUGEPAGE") or not size:
        return np.zeros(shape, np.float32)
    pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a system without large pages
        pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, np.float32).reshape(shape)


def _convert(
    stored: Array, values: npt.NDArray[np.float32], scaling: Scaling, limit: float,
    inside: npt.NDArray[np.bool_] | None, place: tuple[slice, ...],
) -> bool:
    """Convert a block of an image; return whether no value is NaN or beyond the limit."""
    block, part = stored[place], values[place]
    if inside is None or (chosen := inside[place]).all():
        return _scale(block, part, scaling, limit)
    whole, fine = np.empty(part.shape, np.float32), True
    if chosen.any():
        fine = _scale(block, whole, scaling, limit)
        part[chosen] = rows = whole[chosen]
        fine = fine or _is_within(rows, limit)  # the others do not matter
    return fine


def _scale(block: Array, part: npt.NDArray[np.float32], scaling: Scaling, limit: float) -> bool:
    """Convert the values of a block; return whether none is NaN or beyond the limit."""
    kind = block.dtype
    with np.errstate(all="ignore"):
        block = _space_out(block) if block.strides[0] < abs(block.strides[3]) else block
        for step, number in scaling[:-1]:
            block = step(block, number)
        for step, number in scaling[-1:]:
            step(block, number, out=part, casting="same_kind")
        if not scaling:
            part[...] = block
        return _is_bounded(kind, scaling, limit) or _is_within(part, limit)


def _is_within(values: npt.NDArray[np.float32], limit: float) -> bool:
    """Tell whether no value is NaN or beyond a limit."""
    return bool(values.min() >= -limit and values.max() <= limit)


def _packed_proxy(image: Image) -> ArrayProxy | None:
    """Return where the values of an image of nibabel lie, if it is in a large gzip file, volume by volume.

    Smaller ones are unpacked in one call, which does not wait for Python's lock.
    """
    from nibabel.arrayproxy import ArrayProxy

    proxy = None if isinstance(image, StoredImage) else image.dataobj
    if type(proxy) is not ArrayProxy or not isinstance(proxy.file_like, str | Path) or proxy.order != "F":
        return None
    size = proxy.offset + math.prod(proxy.shape) * proxy.dtype.itemsize
    name = str(proxy.file_like)
    if Path(name).suffix.lower() not in GZIPPED or math.prod(proxy.shape[3:]) != max(proxy.shape[3:]):
        return None
    return proxy if GROUP < size <= bytes_unpacked(name, size) else None


def _storage_of(image: Image) -> tuple[Array, Scaling]:
    """Return the values without scaling, and the operations that scale them, as nibabel does."""
    if isinstance(image, StoredImage):
        return image.load(), _scaling(image.kind, image.slope, image.inter)
    from nibabel.arrayproxy import ArrayProxy

    proxy = image.dataobj
    if type(proxy) is not ArrayProxy:  # values in memory, or of a rarer format, whose scaling varies
        return np.asarray(proxy), []
    if isinstance(proxy.file_like, BytesIO):
        content = proxy.file_like.getvalue()
        stored = np.ndarray(proxy.shape, proxy.dtype, content, proxy.offset, order=proxy.order)  # type: ignore[arg-type]
    else:
        stored = proxy.get_unscaled()
    return stored, _scaling(stored.dtype, proxy.slope, proxy.inter)


def _scaling(stored: np.dtype, slope: float, inter: float) -> Scaling:
    """Return the operations that scale values of a type, with numbers of the type that nibabel computes in."""
    from nibabel.volumeutils import apply_read_scaling

    steps = (np.multiply, np.float64(slope), 1), (np.add, np.float64(inter), 0)
    # once for all blocks, since it changes the filters of warnings for all threads
    kind = apply_read_scaling(np.zeros(1, stored), steps[0][1], steps[1][1]).dtype
    return [(step, np.array([number], kind)) for step, number, nothing in steps if number != nothing]


def _is_bounded(kind: np.dtype, scaling: Scaling, limit: float) -> bool:
    """Tell whether no value of a type, once scaled, can be NaN or beyond a limit."""
    if kind.kind not in "iu":
        return False
    ends = np.array([np.iinfo(kind).min, np.iinfo(kind).max], np.float64)
    with np.errstate(all="ignore"):
        for step, number in scaling:
            ends = step(ends, number)
    return bool((np.abs(ends) <= limit).all())


def _places(stored: Array) -> Generator[tuple[slice, ...], None, None]:
    """Divide an image into blocks of all x and n, whose rows are contiguous in the file and in the result."""
    row, (_, width, depth, _) = stored[:, 0, 0].nbytes, stored.shape
    deep, wide = min(depth, max(1, BLOCK // row)), max(1, BLOCK // (row * depth))
    for y in range(0, width, wide):
        for z in range(0, depth, deep):
            yield np.s_[:, y : y + wide, z : z + deep]


def _space_out(block: Array) -> Array:
    """Copy the volumes of a block an odd number of cache lines apart; those a power of 2 apart evict each other."""
    kind, size = block.dtype.newbyteorder("="), block[..., 0].size
    lines = size * kind.itemsize // LINE + 1 | 1
    rows = np.empty((block.shape[3], lines * LINE // kind.itemsize), kind)
    copy = rows[:, :size].reshape(block.shape[::-1]).T
    copy[...] = block
    return copy
