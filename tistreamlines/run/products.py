"""The products of a run: the files that it makes of its streamlines besides a tractogram."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ..aliases import Array, Json
from ..backends.program import Program
from ..errors import InputError, ParameterError
from ..io import sidecar
from ..io.drafts import all_or_none
from ..io.tables import faint, load_weights
from ..options.parameters import Parameters
from ..space.batch import Batch, Groups, Space
from ..tracking.growth.settings import Settings
from ..tracking.products.collector import Collector
from ..tracking.products.density.map import MAPS
from ..tracking.products.files import SIFT2, Maker, ProductFile, WeightProduct
from ..tracking.registry import PRODUCTS
from ..tracking.seeding.seeds import Seeds
from ..tracking.weights.options import TRACKED

Kind = TypeVar("Kind", bound="Collector | type[Collector]")


class Products:
    """The products of a run.

    Parameters
    ----------
    products : each of them, by the name of its row.
    weights : with which streamlines are weighted: SIFT2 or the name of a file; None if they are not.
    """

    def __init__(self, products: Mapping[str, ProductFile], weights: str | None = None) -> None:
        self._products, self._weights, self._count = dict(products), weights, 0
        self._loaded = None if weights in (None, SIFT2) else load_weights(weights)

    def _weighing(self) -> list[WeightProduct]:
        """Return the products that weigh streamlines."""
        return [product for product in self._products.values() if isinstance(product, WeightProduct)]

    def watch_weighing(self, watch: Callable[[int, float, float], object]) -> None:
        """Let a function watch iterations; see :attr:`..tracking.products.files.WeightProduct.watch`."""
        for product in self._weighing():
            product.watch = watch

    @property
    def follows(self) -> bool:
        """Whether :meth:`follow` takes time."""
        return any(product.follows for product in self._products.values())

    def follow(
        self, followed: object = None, progress: Callable[[float], object] = lambda _: None, seeds: Seeds | None = None
    ) -> None:
        """Hand on the input that streamlines follow, before they come; see :meth:`.files.ProductFile.follow`."""
        for product in self._products.values():
            product.follow(followed, progress, seeds)

    @property
    def weighs(self) -> bool:
        """Whether streamlines are weighed."""
        return bool(self._weighing())

    def add(self, batch: Batch) -> None:
        """Take the streamlines of a batch into account."""
        self._count += len(batch)
        for product in self._products.values():
            if batch.has_points or not product.needs_points:  # else the device makes it
                product.add(batch)

    def groups(self, batch: Batch) -> tuple[Groups, ...]:
        """Return the groups of the streamlines of a batch, of all products that have some."""
        return tuple(groups for product in self._products.values() for groups in product.groups(batch))

    def move_to(self, program: Program) -> None:
        """Have the kernels that take points run with this program, as far as products can."""
        for product in self._products.values():
            product.move_to(program)

    def collectors(self, space: Space, settings: Settings, *, without_points: bool) -> tuple[list[Collector], bool]:
        """Return what devices make, and whether the points of streamlines come back; see :func:`with_points`."""
        products = self._products.values()
        collectors = ((product.of_dropped, product.collector(space, settings)) for product in products)
        return with_points(collectors, without_points=without_points)

    @property
    def inner_points(self) -> bool:
        """Whether a product needs all points of streamlines, those within arcs included."""
        return any(product.needs_points and product.inner_points for product in self._products.values())

    def keep(self, path: Path) -> None:
        """Write what was made since the last call, as far as streamlines do not tell it, to files of this name."""
        for name, product in self._products.items():
            product.keep(path.with_suffix(f".{name}.npy"))

    def restore(self, path: Path, dropped: Array) -> None:
        """Read what :meth:`keep` has written, where so many streamlines were dropped for each reason."""
        for name, product in self._products.items():
            product.restore(path.with_suffix(f".{name}.npy"), dropped)

    def write(self, *, force: bool) -> None:
        """Write all files, or none that is new."""
        weights = self._streamline_weights()

        def write(product: ProductFile) -> None:
            if weights is not None:
                product.take_weights(weights)
            product.write(force=force)

        # those of several products at the same time
        with all_or_none(self.files), ThreadPoolExecutor(max(1, len(self._products))) as pool:
            for written in [pool.submit(write, product) for product in self._products.values()]:
                written.result()

    def per_streamline(self) -> dict[str, Array]:
        """Return what products tell of each streamline when all have come, (n,), by name."""
        return {"weights": self._weigh()} if self.weighs else {}

    def _weigh(self) -> Array:
        """Weigh the streamlines, while other products begin what needs no weights."""
        for product in self._products.values():
            product.complete()
        return self._weighing()[0].weights()

    def _streamline_weights(self) -> Array | None:
        """Return the weights of the streamlines, (n,), if products wait for them."""
        if self._weights is None:
            return None
        weights = self._weigh() if self._loaded is None else self._loaded
        count = self._count
        if len(weights) != count:
            raise InputError(f"{self._weights}: has {len(weights):,} weights, but there are {count:,} streamlines")
        return weights

    @property
    def details(self) -> Json:
        """Their fields of the record."""
        return {name: product.details for name, product in self._products.items()}

    @property
    def values(self) -> dict[str, Any]:
        """Their fields of the result."""
        return {name: product.value for name, product in self._products.items()}

    @property
    def paths(self) -> dict[str, tuple[Path, ...]]:
        """Their files."""
        return {name: product.paths for name, product in self._products.items()}

    @property
    def files(self) -> list[Path]:
        """All their files."""
        return [path for paths in self.paths.values() for path in paths]

    @property
    def doubts(self) -> list[str]:
        """Why they may be wrong."""
        unseen = [] if self._loaded is None else faint(str(self._weights), self._loaded)
        empty = [product.nowhere for product in self._products.values() if product.nowhere and self._count]
        return unseen + [text for product in self._products.values() for text in product.doubts] + empty


def with_points(collectors: Iterable[tuple[bool, Kind | None]], *, without_points: bool) -> tuple[list[Kind], bool]:
    """Return the collectors of a run, or their classes, and whether the points of streamlines come back.

    Parameters
    ----------
    collectors : of each product, whether it is made of dropped streamlines, and its collector; None if it needs points.
    without_points : whether points may stay on the device, as neither a tractogram nor memory takes them.
    """
    known = list(collectors)
    points = not without_points or any(collector is None for _, collector in known)
    pairs = [(of_dropped, collector) for of_dropped, collector in known if collector is not None]
    return [collector for of_dropped, collector in pairs if of_dropped or not points], points


def with_weights(parameters: Parameters, output: Path | None) -> Parameters:
    """Return the options with a file beside the tractogram for the weights of SIFT2, if only --weights asks for these.

    Raises
    ------
    ParameterError
        If a part is tracked, whose streamlines are not all.
    """
    if parameters.weights != SIFT2 or parameters.sift2 is not None or output is None:
        return parameters
    if parameters.part is not None:
        raise ParameterError("--weights sift2 and --part exclude each other: give --sift2 to tistreamlines join")
    return parameters.changed(sift2=(TRACKED, output.with_name(f"{output.stem}_weights.txt")))


def makers_of(parameters: Parameters) -> dict[str, Maker | None]:
    """Check the options of products; return what makes those that have read inputs, by the name of the product."""
    return {name: PRODUCTS[name].check(parameters) for name in asked(parameters)}


def products_of(
    parameters: Parameters, space: Space, step_mm: float, makers: Mapping[str, Maker | None] | None = None, *,
    of_maps: tuple[Space, float] | None = None,
) -> Products:
    """Return the products that the options ask for, of an image with this grid, tracked with this step size.

    They need :meth:`Products.follow` before the first streamlines. ``makers`` are what :func:`makers_of` has returned,
    if it was called; ``of_maps`` is the grid of maps and the longest distance of two points, where these are others.
    """
    grids = {name: of_maps if of_maps and name in MAPS else (space, step_mm) for name in asked(parameters)}
    files = {
        name: ((makers or {}).get(name) or partial(PRODUCTS[name].make, parameters))(*grid, parameters.threads)
        for name, grid in grids.items()
    }
    if others := [name for name, file in files.items() if not isinstance(file, ProductFile)]:
        raise ParameterError(f"the product {others[0]} of a plugin is no ProductFile: let its class inherit from that")
    return Products(files, parameters.weights)


def asked(parameters: Parameters) -> dict[str, tuple[Path, ...]]:
    """Return the files that the options ask for, by the name of their product."""
    return {
        name: (Path(value),) if row.files is None else row.files(parameters)
        for name, row in PRODUCTS.items() if (value := getattr(parameters, name)) is not None
    }


def suffix_of(path: Path, suffixes: Iterable[str]) -> str:
    """Return the one of some suffixes that a name ends with, as it is written, or nothing."""
    name = path.name
    return next((name[len(name) - len(suffix) :] for suffix in suffixes if name.lower().endswith(suffix)), "")


def record_path(output: Path | None, products: Mapping[str, tuple[Path, ...]]) -> Path | None:
    """Return the name of the record of a run: beside the tractogram, or without one beside its first product."""
    if output is not None:
        return sidecar.sidecar_path(output)
    if not products:
        return None
    name, (path, *_) = next(iter(products.items()))
    return path.with_name(path.name.removesuffix(suffix_of(path, PRODUCTS[name].suffixes)) + ".json")

