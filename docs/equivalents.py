"""What names of other programs are called here, besides those of the advice in ``tistreamlines/cli/hints.py``."""

# options of tckgen with the same name and meaning, but one dash
ALIKE = (
    "include", "include-ordered", "exclude", "select", "seed-sphere", "seed-dynamic", "act", "trials", "power",
    "samples", "downsample", "backtrack", "crop-at-gmwmi", "sgm-truncation", "force", "quiet", "help",
)
# what DIPY's Python functions and classes are called on the command line
DIPY_NAMES = {
    "BootDirectionGetter with LocalTracking": "--dg boot --like dipy",
    "probabilistic_tracking": "--dg prob --max-directions 1 --like dipy",
    "deterministic_tracking": "--dg det --max-directions 1 --like dipy",
    "ClosestPeakDirectionGetter": "--dg det --det-rule closest",
    "ptt_tracking": "--dg ptt --max-directions 1 --probe-rule tracker --like dipy",
    "ThresholdStoppingCriterion(map, 0.1)": "--stop-map FILE --stop-threshold 0.1, or --fa-threshold of FA",
    "BinaryStoppingCriterion(mask)": "--stop-mask FILE",
    "ActStoppingCriterion.from_pve(wm, gm, csf)": "--pve-wm FILE --pve-gm FILE --pve-csf FILE",
    "CmcStoppingCriterion.from_pve(wm, gm, csf, ...)": "--stopping cmc --pve-wm FILE --pve-gm FILE --pve-csf FILE",
    "ParticleFilteringTracking": "--pft, with --pve-wm FILE --pve-gm FILE --pve-csf FILE",
    "return_all=False": "--keep valid-ends",
    "SHCoeffPmfGen": "--pmf-rows sh, the default",
    "SimplePmfGen": "--pmf-rows sampled",
    "default_sphere": "--sphere default, the hemisphere of 362 vertices",
}
