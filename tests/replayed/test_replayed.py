"""Public reports of faults, replayed: what went wrong there, and a small input with which it does not go wrong here."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
from nights import few_by_day

from . import gradients, images, runs, tractograms
from .scene import Scene


class Report(NamedTuple):
    """A report: repository and number, what went wrong, and what replays it."""

    number: str
    fault: str
    replay: Callable[[Scene], None]


REPORTS = [
    Report("dipy/dipy#2201", "b-vectors rounded to three digits are refused", gradients.short_vectors),
    Report("dipy/dipy#452", "b-vectors that are not of unit length stop the run", gradients.vectors_with_amplitudes),
    Report("MICA-MNI/micapipe#41", "b-values are scaled by the norms in silence", gradients.vectors_with_amplitudes),
    Report("dipy/dipy#3283", "one direction ends in an exception", gradients.one_direction),
    Report("dipy/dipy#2601", "a series of b0s ends in an exception", gradients.only_b0s),
    Report("dipy/dipy#2090", "a b0 of b = 60 is not one", gradients.b0s_with_a_b_value),
    Report("dipy/dipy#1668", "vectors of HCP's b0s give NaN", gradients.b0s_of_b_5),
    Report("MRtrix3/mrtrix3#2577", "NaN as the vectors of b0s, as of eddy", gradients.vectors_of_nan),
    Report("MIC-DKFZ/TractSeg#260", "fewer vectors than volumes: an error elsewhere", gradients.too_few_vectors),
    Report("MRtrix3/mrtrix3#63", "a shell of three volumes becomes a shell of b = nan", gradients.a_small_shell),
    Report("MRtrix3/mrtrix3#119", "several shells: the command breaks", gradients.three_shells),
    Report("MRtrix3/mrtrix3#2024", "b = 100 is clustered with the b0s", gradients.low_b_values),
    Report("MIC-DKFZ/TractSeg#116", "bundles mirrored across an axis", gradients.stored_from_right_to_left),
    Report("MIC-DKFZ/TractSeg#113", "LAS and RAS storage give other tracts", gradients.stored_from_right_to_left),
    Report("MRtrix3/mrtrix3#598", "gradients of .mif and of FSL's files differ in x", gradients.gradients_of_mrconvert),
    Report("dipy/dipy#1047", "gradients flipped in x after other programs", gradients.gradients_of_mrconvert),
    Report("scilus/scilpy#1146", "vectors flipped along y: wrong tracts", gradients.vectors_along_other_axes),
    Report("dipy/dipy#1152", "a mask with voxels of no signal gives NaN", gradients.no_signal_in_the_mask),
    Report("MRtrix3/mrtrix3#1540", "qform and sform disagree", images.qform_and_sform_disagree),
    Report("MRtrix3/mrtrix3#94", "inconsistent left and right in qform and sform", images.qform_and_sform_disagree),
    Report("MRtrix3/mrtrix3#1439", "voxel sizes of header and affine disagree", images.sizes_disagree),
    Report("MRtrix3/mrtrix3#1210", "which form counts is unclear", images.no_form_has_a_code),
    Report("MRtrix3/mrtrix3#1456", "a 4-D parcellation gives an empty matrix", images.one_volume_more),
    Report("bids-apps/MRtrix3_connectome#66", "labels with gaps break the matrix", images.labels_with_gaps),
    Report("dipy/dipy#1699", "labels of FreeSurfer up to 2035", images.labels_of_freesurfer),
    Report("nipy/nibabel#1001", "labels are no integers after scaling", images.labels_with_a_slope),
    Report("MRtrix3/mrtrix3#2376", "labels between integers are rounded in silence", images.labels_between_integers),
    Report("MRtrix3/mrtrix3#351", "ends outside the parcellation crash", images.ends_outside_the_labels),
    Report("LTS5/cmp#110", "ends outside the label volume raise IndexError", images.ends_outside_the_labels),
    Report("MIC-DKFZ/TractSeg#147", "ends outside the mask raise IndexError", images.ends_outside_the_grid),
    Report("MIC-DKFZ/TractSeg#117", "negative voxels count at the other side", images.ends_outside_the_grid),
    Report("MRtrix3/mrtrix3#2451", "a map of several volumes cannot be sampled", images.a_map_of_several_volumes),
    Report("MRtrix3/mrtrix3#2397", "an empty seed image", images.an_empty_seed_mask),
    Report("connectomicslab/connectomemapper3#17", "an empty seed image ends a pipeline", images.an_empty_seed_mask),
    Report("scilus/scilpy#687", "an empty seed mask ends in an exception", images.an_empty_seed_mask),
    Report("nipreps/fmriprep#2507", "masks with a slope of NaN cannot be read", images.a_slope_of_nan),
    Report("nipy/nibabel#99", "an image comes up full of NaN", images.a_slope_of_nan),
    Report("layerfMRI/LAYNII#88", "a slope of 0 makes all values 0", images.a_slope_of_zero),
    Report("nipy/nibabel#480", "slope and intercept are lost", images.a_mask_with_an_intercept),
    Report("nipy/nibabel#1002", "an image of NaN", images.a_mask_of_nan),
    Report("nipreps/mriqc#319", "a damaged .nii.gz ends in an exception", images.a_cut_gzip),
    Report("dipy/dipy#1045", "sheared affines are refused, or give wrong places", images.a_sheared_affine),
    Report("dipy/dipy#2170", "the density map of a .tck has other counts than tckmap", images.density_beside_tckmap),
    Report("MRtrix3/mrtrix3#3372", "tck2connectome crashes on empty streamlines", tractograms.empty_streamlines),
    Report("MRtrix3/mrtrix3#1131", "tcknormalise leaves empty streamlines", tractograms.empty_streamlines),
    Report("scilus/scilpy#1167", "streamlines of one point break tractometry", tractograms.streamlines_of_one_point),
    Report("MRtrix3/mrtrix3#1820", "a streamline of one point counts twice", tractograms.a_single_point_is_one_end),
    Report("MRtrix3/mrtrix3#1769", "the header counts fewer streamlines", tractograms.another_count_in_the_header),
    Report("MRtrix3/mrtrix3#1925", "nibabel cannot read .tck of tckresample", tractograms.headers_of_tckresample),
    Report("dipy/dipy#1832", "a .trk is written without the affine", tractograms.header_of_a_trk),
    Report("dipy/dipy#2254", "a .trk is written without the number of streamlines", tractograms.header_of_a_trk),
    Report("demianw/tract_querier#64", "points of a .trk are shifted by half a voxel", tractograms.header_of_a_trk),
    Report("dipy/dipy#2404", "a .trk of ExploreDTI has no affine", tractograms.a_trk_that_lost_its_affine),
    Report("MIC-DKFZ/TractSeg#14", "published .trk files lack their affine", tractograms.a_trk_that_lost_its_affine),
    Report("MIC-DKFZ/TractSeg#121", "versions of .trk are read in other places", tractograms.a_version_of_trackvis),
    Report("nipy/nibabel#704", "a .trk moves when it is saved again", tractograms.orders_of_voxels),
    Report("nipy/nibabel#486", "a file that was cut is read in silence", tractograms.a_trk_that_was_cut),
    Report("scilus/scilpy#1142", "an empty tractogram ends a pipeline", tractograms.an_empty_tractogram),
    Report("tee-ar-ex/trx-python#91", "an empty .trx cannot be written or read", tractograms.an_empty_trx),
    Report("tee-ar-ex/trx-python#86", "members of other programs are not read", tractograms.members_of_other_programs),
    Report("tractometry/pyAFQ#93", "offsets of 32 bits", tractograms.offsets_of_32_bits),
    Report("tee-ar-ex/trx-python#133", "the last offset is wrong", tractograms.an_offset_that_ends_early),
    Report("tee-ar-ex/trx-python#89", "bytes in the order of the computer", tractograms.little_endian),
    Report("tee-ar-ex/trx-python#39", "streamlines that are added to a .trx", tractograms.a_selection_of_trx_python),
    Report("tee-ar-ex/trx-python#37", "a .trx that is a folder", tractograms.a_zip_of_a_folder),
    Report("scilus/scilpy#504", "streamlines out of the box end a run", tractograms.streamlines_out_of_the_box),
    Report("dipy/dipy#2499", "compressed streamlines: slice step cannot be zero", tractograms.points_that_repeat),
    Report("sina-mansour/UKB-connectomics#24", "all weights of SIFT2 are 1", tractograms.weights_that_differ),
    Report("scilus/scilpy#225", "seeds are saved in another space", tractograms.seeds_in_another_space),
    Report("nipy/nibabel#942", "formats give other coordinates", tractograms.same_lines_from_each_format),
    Report("dipy/dipy#2189", "ODFs with NaN end in an exception", runs.nan_in_fods),
    Report("dipy/dipy#407", "NaN in a series ends in an exception", runs.nan_outside_the_mask),
    Report("dipy/dipy#1712", "a point outside the data raises IndexError", runs.seeds_outside_the_image),
    Report("dipy/dipy#760", "seeds without a direction are lost", runs.seeds_without_a_direction),
    Report("dipy/dipy#1585", "two runs differ", runs.the_same_again),
    Report("dipy/dipy#1602", "seeds depend on how many there are", runs.the_first_of_more_seeds),
    Report("dipy/dipy#330", "seeds for each voxel are counted in two ways", runs.seeds_in_each_voxel),
    Report("MRtrix3/mrtrix3#2066", "statistics of rejection are NaN", runs.statistics_of_nothing),
    Report("MRtrix3/mrtrix3#1882", "streamlines jump over a thin region", runs.a_region_that_steps_jump_over),
    Report("MRtrix3/mrtrix3#1153", "lengths after cropping", runs.lengths_after_cropping),
    Report("MRtrix3/mrtrix3#3196", "streamlines end at the image, not where the FODs end", runs.peaks_without_a_mask),
]


@pytest.mark.parametrize("report", few_by_day(REPORTS, every=6), ids=lambda report: report.number)
def test_a_report(report, tmp_path, run):
    report.replay(Scene(tmp_path, run))


def test_each_replay_has_a_report():
    replays = {report.replay for report in REPORTS}
    for module in (gradients, images, runs, tractograms):
        functions = [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__]
        assert {function for function in functions if not function.__name__.startswith("_")} <= replays
