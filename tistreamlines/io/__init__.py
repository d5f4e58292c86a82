"""Reading images, gradients and seeds; writing tractograms and what is known about them."""

from .images import existing
from .nifti import Dwi, load_dwi, load_map, load_mask, load_seeds
from .pipes import Drained, drained
from .sidecar import sha256, sidecar_path, write_json
from .writer import TractogramWriter, open_writer

__all__ = [
    "Drained",
    "Dwi",
    "TractogramWriter",
    "drained",
    "existing",
    "load_dwi",
    "load_map",
    "load_mask",
    "load_seeds",
    "open_writer",
    "sha256",
    "sidecar_path",
    "write_json",
]
