"""The public names: type checkers find them here, and the package each in its module, on first use."""

from .errors import DeviceError as DeviceError
from .errors import InputError as InputError
from .errors import OutputError as OutputError
from .errors import ParameterError as ParameterError
from .errors import TrackingError as TrackingError
from .kernels.stop_reasons import Stop as Stop
from .options.objects import ACT as ACT
from .options.objects import ACT5 as ACT5
from .options.objects import CMC as CMC
from .options.objects import CSA as CSA
from .options.objects import CSD as CSD
from .options.objects import MSMT as MSMT
from .options.objects import OPDT as OPDT
from .options.objects import Bedpostx as Bedpostx
from .options.objects import Binary as Binary
from .options.objects import Boot as Boot
from .options.objects import Connectome as Connectome
from .options.objects import Density as Density
from .options.objects import Det as Det
from .options.objects import Ends as Ends
from .options.objects import Fact as Fact
from .options.objects import Ifod1 as Ifod1
from .options.objects import Ifod2 as Ifod2
from .options.objects import Mask as Mask
from .options.objects import Prob as Prob
from .options.objects import Ptt as Ptt
from .options.objects import SampleTable as SampleTable
from .options.objects import SdStream as SdStream
from .options.objects import SeedMatrix as SeedMatrix
from .options.objects import SeedsToTargets as SeedsToTargets
from .options.objects import Sift2 as Sift2
from .options.objects import Sphere as Sphere
from .options.objects import Threshold as Threshold
from .options.objects import VoxelMatrix as VoxelMatrix
from .options.objects import Waytotal as Waytotal
from .options.objects import choice as choice
from .options.parameters import Parameters as Parameters
from .run.api import estimate as estimate
from .run.api import stream as stream
from .run.api import track as track
from .run.estimate import Estimate as Estimate
from .run.five_tissues import five_tissues as five_tissues
from .run.fixels import Fixels as Fixels
from .run.fixels import fixels as fixels
from .run.fods import FodResult as FodResult
from .run.fods import fit_fods as fit_fods
from .run.log import Watcher as Watcher
from .run.mapping import map_tractogram as map_tractogram
from .run.parts import join as join
from .run.result import TrackResult as TrackResult
from .space.batch import Batch as Batch
from .space.batch import Space as Space
from .tracking.registry import register as register

__version__: str
__all__: list[str]
