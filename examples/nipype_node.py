"""An interface of ``tistreamlines track`` for Nipype, to be copied into a workflow; Nipype is not a dependency here.

Run it on your own series; the last file is the tractogram that it writes:

    python nipype_node.py dwi.nii.gz dwi.bval dwi.bvec brain.trx
"""

import sys
from pathlib import Path

from nipype.interfaces.base import CommandLine, CommandLineInputSpec, File, TraitedSpec, traits


class TrackInputSpec(CommandLineInputSpec):
    """The options that a workflow needs most; ``args`` takes any others."""

    dwi = File(exists=True, mandatory=True, argstr="%s", position=0, desc="diffusion series")
    bvals = File(exists=True, mandatory=True, argstr="%s", position=1, desc="b-values, s/mm2")
    bvecs = File(exists=True, mandatory=True, argstr="%s", position=2, desc="gradient directions")
    out_file = File("tractogram.trx", usedefault=True, argstr="--output %s", desc=".trx, .trk or .tck")
    mask = File(exists=True, argstr="--mask %s", desc="brain mask")
    seed_mask = File(exists=True, argstr="--seed-mask %s", desc="mask in which seeds are placed")
    dg = traits.Enum("boot", "prob", "det", "ptt", argstr="--dg %s", desc="direction getter")
    model = traits.Enum("csd", "csa", "opdt", argstr="--model %s", desc="model that is fitted")
    nseeds = traits.Range(low=1, argstr="--nseeds %d", desc="number of random seeds")
    max_angle = traits.Float(argstr="--max-angle %g", desc="degrees")
    density = File(argstr="--density %s", desc="map of how many streamlines pass through each voxel")
    arch = traits.Enum("auto", "cuda", "amdgpu", "vulkan", "metal", "cpu", argstr="--arch %s", desc="where to run")
    num_threads = traits.Int(1, usedefault=True, nohash=True, argstr="--threads %d", desc="CPU threads")


class TrackOutputSpec(TraitedSpec):
    """What it writes."""

    out_file = File(exists=True, desc="streamlines, RASmm")
    record = File(exists=True, desc="options, inputs, versions and results")
    density = File(desc="map, if it was asked for")


class Track(CommandLine):
    """Track streamlines through a diffusion series."""

    _cmd = "tistreamlines track --quiet"
    input_spec = TrackInputSpec
    output_spec = TrackOutputSpec

    def _list_outputs(self):
        out = Path(self.inputs.out_file).absolute()
        outputs = {"out_file": str(out), "record": str(out.with_suffix(".json"))}
        if self.inputs.density:  # not isdefined: a node may have it empty
            outputs["density"] = str(Path(self.inputs.density).absolute())
        return outputs


if __name__ == "__main__":
    dwi, bvals, bvecs, out_file = sys.argv[1:]
    node = Track(dwi=dwi, bvals=bvals, bvecs=bvecs, out_file=out_file)
    print(node.run().outputs)
