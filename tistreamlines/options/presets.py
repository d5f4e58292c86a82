"""Presets: names of the options with which published pipelines track. They are only defaults; any option overrides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """The options of a pipeline.

    Attributes
    ----------
    title : where it is from, in a few words.
    options : their values by name; those on which others depend come first.
    """

    title: str
    options: Mapping[str, object]


# iFOD2 on normalised FODs of several tissues, with five tissues
_ACT: dict[str, object] = {"dg": "ifod2", "stopping": "act5", "model": "msmt", "normalise": True}
PRESETS: dict[str, Preset] = {
    # github.com/PennLINC/qsirecon, data/pipelines/mrtrix_multishell_msmt_ACT-hsvs.yaml: dwi2response dhollander,
    # dwi2fod msmt_csd, mtnormalise, tckgen, tcksift2, four of tck2connectome. workflows/recon/mrtrix.py seeds in the
    # FODs (-seed_dynamic) and gives tcksift2 the five tissues. Those are of 5ttgen hsvs there.
    "qsirecon-msmt-act": Preset("QSIRecon, mrtrix_multishell_msmt_ACT-hsvs", {
        **_ACT, "seed_dynamic": "tracked", "select": 10_000_000, "min_length": 30.0, "max_length": 250.0, "power": 0.33,
        "backtrack": True, "crop_at_gmwmi": True, "weights": "sift2", "connectome_radius": 2.0,
        "connectome_measure": ("count", "inverse-volume", "unweighted-count", "unweighted-mean-length"),
    }),
    # Mansour et al. 2023, doi:10.1101/2023.03.10.532036; github.com/sina-mansour/UKB-connectomics, scripts/bash:
    # probabilistic_tractography_native_space.sh has 5ttgen freesurfer -sgm_amyg_hipp, dwi2response
    # dhollander, dwi2fod msmt_csd, mtnormalise, tckgen and tcksift2 -act; map_structural_connectivity.sh has
    # tck2connectome of counts, and of weighted counts, lengths and maps (--connectome-sample). The masks of its fits
    # and the nuclei of FSL's FIRST are files, which a preset cannot name.
    "ukb-connectome": Preset("UK Biobank's connectomes, Mansour et al. 2023", {
        **_ACT, "seed_gmwmi": "act", "nseeds": 10_000_000, "max_length": 250.0, "cutoff": 0.1, "power": 0.5,
        "samples": 3, "sgm_amyg_hipp": True, "weights": "sift2", "connectome_radius": 4.0,
        "connectome_measure": ("count", "mean-length", "unweighted-count"),
    }),
    # Tahedl, B.A.T.M.A.N.: Basic and Advanced Tractography with MRtrix for All Neurophiles, 2018, osf.io/fkyht: tckgen
    # -act -backtrack -seed_gmwmi -select 10000000; tck2connectome -symmetric -zero_diagonal -scale_invnodevol
    # -out_assignment. Its tcksift, which keeps a tenth of the streamlines in between, is a command of its own: sift.
    "mrtrix-basic": Preset("MRtrix3's tutorial B.A.T.M.A.N., Tahedl 2018", {
        **_ACT, "seed_gmwmi": "act", "select": 10_000_000, "backtrack": True, "connectome_measure": ("inverse-volume",),
        "connectome_zero_diagonal": True, "connectome_pairs": True,
    }),
}
