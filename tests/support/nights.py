"""Cases of parametrized tests that only the night tries.

``at_night`` and ``few_by_day`` mark cases where they are written. Most cases that exercise the same code as others have
names that pytest makes of stacked parametrizations: for their tests, ``BY_DAY`` says which remain by day.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

import pytest

# test file as conftest.py names it -> test -> patterns of the cases by day
BY_DAY: dict[str, dict[str, tuple[str, ...]]] = {
    "backends/conformance": {
        # SwiftShader and subgroups of another size run in other tests by day
        "test_devices_give_the_cpus_bits": ("lavapipe-*", "lavapipe of 128*", "vulkan-*", "cuda-*", "metal-*", "amd*"),
    },
    "backends/interpreted": {"test_getters_give_the_cpus_bits": ("boot", "det")},
    "backends/lost": {"test_one_line_and_nothing_left": ("30",)},
    "backends/trial": {"test_the_users_choice_of_a_vulkan_device_is_heeded": ("0",)},
    "cli/signals": {
        "test_too_late": ("2",), "test_while_a_library_is_at_work": ("15",),
        "test_while_the_file_is_finished": ("a.trx-2",),
    },
    "dipy/dipy": {
        "TestCriteria::test_streamlines_end_where_dipys_do": ("*-act",),
        "TestFunctions::test_deterministic_streamlines_are_dipys": ("True-det*", "False-*"),
        "TestFunctions::test_parallel_transport_agrees": ("False",),
        "TestReproducible::test_seeds_of_dipy_share_random_numbers_unless_random_seed_is_large": ("1", "1000000"),
    },
    "dipy/local_tracking": {
        "TestLocalTracking::test_random_streamlines_agree": ("PTT*",),
        "TestParticles::test_particle_filtering_agrees": ("cmc",),
    },
    "dipy/more": {"TestPeaks::test_deterministic_streamlines_are_dipys": ("default",)},
    "fit/csd_shells": {"test_shells_up_to_that_of_models": ("directions[024]-*",)},
    "fit/frames": {
        "test_gradients_come_to_the_voxel_axes": ("fsl-PIR", "voxel-oblique", "fsl-LAS", "fsl-oblique", "voxel-RAS"),
    },
    "fit/lobes": {
        "test_devices_give_the_cpus_bits": ("cuda", "metal", "amd*"),  # backends/conformance finds fixels on lavapipe
        "test_lobes_are_those_of_a_plain_watershed": ("0.6",),
    },
    "fit/shells": {
        "test_models_are_fitted_to_the_higher_shell": ("options[03]",),
        "test_one_shell_is_that_of_dwiextract": ("1000-options0", "2500-options1", "1000-options3"),
    },
    "fit/tensor": {"test_equals_dipy_on_real_signals": ("*_crop", "fibercup")},
    "io/bounds": {
        "test_a_surface_that_unpacks_to_gigabytes": ("None",),
        "test_headers_without_an_end": ("*END*", "*x00*"),
    },
    "io/cache": {"test_every_array_is_as_long_as_the_kernels_take_it_for": ("ptt", "det", "boot*")},
    "io/drafts": {"test_a_folder_of_another_user": ("63-0-*", "2-0-sticky", "18-54321-group", "63-54321-everyone")},
    "io/full_disk": {"test_a_map_without_its_record": ("True",)},
    "io/mif": {
        "test_every_type_and_scaling": ("Int8", "Int16BE", "UInt64LE"),
        "test_gradients_are_those_of_mrconvert": ("upright-units", "oblique-nearly*", "upright-half*", "oblique-no*"),
    },
    "io/mif_runs": {
        "test_maps_and_masks": ("mask", "stop_map", "include"), "test_orientations": ("sh", "peaks"),
        "test_tissues": ("act",),
    },
    "io/peak_lobes": {"test_peaks_that_differ_are_followed": ("det",)},
    "io/picture": {"test_direction_gives_the_colour_and_the_side_of_the_page": ("1-*",)},
    "io/stored_image": {
        "test_every_type_byte_order_and_scaling": ("1->-*", "4000-<-f8", "4194304-<-i8", "4194304->-u2"),
    },
    "kernels/orientation/peaks": {"test_peaks_are_dipys": ("0.05-*-default", "0.25-*-full", "0.8-*")},
    "linker/store": {
        "test_a_folder_above_that_others_can_write_to": ("0-493-*", "0-1023-*", "0-509-*", "1-509-*", "2-448-*"),
        "test_taichi_runs_where_nothing_can_be_written": ("True",),
    },
    "helpers": {"test_without_docstrings_one_line_says_so": ("flags0",)},
    "plugins": {"test_a_plugin_that_raises": ("add-*",)},
    "run/anatomical_parts": {"test_they_make_the_file_of_one_run": ("ifod2",)},
    "run/api_memory": {
        "TestSameBits::test_orientations": ("seeds-sh-*", "seed_mask-odf-*", "seeds-peaks-more3"),
        "TestSameBits::test_series": ("arrays", "gtab"),
    },
    "run/api_objects": {
        "test_stopping_rules_and_regions": ("act",), "test_the_bits_are_those_of_keywords": ("ptt", "det"),
    },
    "run/contents": {
        "test_every_nth_point_from_the_seed": ("5",),
        "test_parts_pieces_and_saved_results_have_the_same_bytes": ("more2",),
    },
    "run/density_runs": {"test_kinds_and_ends_of_runs_and_parts": ("direction", "mean-length")},
    "run/empty_streamlines": {
        "test_they_keep_their_places": (".trx-end",),
        "test_nothing_but_empty_streamlines": (".tck",),
        "test_their_weights_count_for_nothing": ("sample", "count"),
    },
    "run/fixels": {
        "test_fixels_are_those_of_fod2fixel": ("options1-*",),
        "test_mrtrix_reads_the_folder": ("mif", "nii.gz"),
    },
    "run/fods": {
        "test_nothing_half_written_stays": ("fit", "place"),
        "test_every_basis_has_the_same_amplitudes": ("descoteaux07_legacy", "tournier07"),
        "test_mrtrix_finds_the_same_directions": ("*-.mif-*",),
    },
    "run/from_python": {"test_a_result_in_memory_can_be_sent_to_another_process": ("True",)},
    "run/missing_values": {"test_voxels_of_fods_with_nan_have_no_function": ("ifod2",)},
    "run/parts": {"TestResume::test_a_run_goes_on_with_the_same_bytes": ("[19]",)},
    "run/places": {
        "test_what_lies_off_all_streamlines_is_warned_of": (
            "join-ends", "map-density", "track-density_sample", "join-sample_table", "map-sample", "track-ends",
        ),
    },
    "run/product_runs": {"test_without_a_tractogram_in_other_chunks_and_threads": ("devices-True", "points-False")},
    "run/progress": {"test_a_log_gets_a_line_a_minute": ("Bar",)},
    "run/record": {
        "TestRecords::test_odd_values": (
            "inputs-False", "inputs.peaks-True", "part.number-True", "piece-False", "result-False", "made_by-False",
            "result.seeds-False", "result.seconds*-False",
        ),
    },
    "run/regrow": {"test_bundles_have_the_bytes_of_those_cut_from_the_tractogram": ("ifod2",)},
    "run/report_runs": {"test_directions_of_tckgens_algorithms_are_the_peaks_of_the_fods": ("ifod2",)},
    "run/result_lines": {"TestSave::test_it_writes_what_the_run_would_have_written": ("some-.tr?", "none-.tck")},
    "run/resume_outputs": {
        "test_a_new_product_replaces_nothing": ("density", "json_stats"),
        "test_its_own_outputs_are_replaced": ("True",),
    },
    "run/spec": {
        "test_orientations": ("*pft*", "*backtrack*", "ifod1-*", "sd_stream*", "prob-peaks*"),
        "test_a_series": ("{}", "*'closest'*", "*'csa'*", "*'ptt'*", "*'ifod2'*"),
    },
    "space/cones": {"test_a_cone_has_the_vertices_within_the_angle": ("5.0-*", "90.0-default-*", "61.0-small-*")},
    "tracking/convergence": {
        "test_deterministic_errors_are_of_the_first_order": ("helix",),
        "test_shorter_steps_of_parallel_transport_stay_closer": ("helix",),
    },
    "tracking/getters/asymmetric": {"TestProb::test_the_kernels_are_told": ("sphere[12]*",)},
    "tracking/getters/boot": {
        "test_drawn_coefficients_have_dipys_mean_and_covariance": ("csa-4-64", "opdt-8-150"),
        "test_plain_coefficients_are_dipys": ("150-8-*", "64-6-csa", "150-4-opdt", "64-2-*"),
    },
    "tracking/getters/det": {"test_directions_are_dipys": ("sh-closest", "pmf-max", "sampled-*")},
    "tracking/getters/ifod": {"test_streamlines_are_those_of_tckgen_but_for_chance": ("ifod2",)},
    "tracking/getters/mrtrix_tckgen": {
        "test_counts_and_lengths_without_a_mask_and_with_one": ("ifod2-*", "sd_stream-*"),
    },
    "tracking/getters/prob": {
        "test_the_same_is_drawn_as_where_all_that_counts_is_known": (
            "0.02-20.0-asymmetric", "0.3-50.0-sh",
        ),
        "test_the_cone_alone_tells_which_samples_count": ("sh-0.7-30*", "sampled-0.7-10*"),
        "test_bounds_are_above_what_is_interpolated": ("sh", "asymmetric"),
        "test_draws_follow_the_pmf": ("numba32-sh-*", "python-pmf-*", "python-sampled-*", "python-asymmetric-*"),
        "test_initial_directions_are_dipys": ("pmf-options0", "sh-options1", "sampled-*", "asymmetric-options0"),
    },
    "tracking/getters/ptt": {
        "test_steps_follow_dipys_law": ("2",), "test_the_nearest_vertex_is_dipys": ("default-1", "full-0", "small-1"),
    },
    "tracking/getters/samples": {
        "test_goes_straight_through_a_crossing": ("getter-60-True", "oracle-*", "*-90-False"),
        "test_the_getter_takes_the_steps_of_the_oracle": ("default", "random*", "use_f-*"),
        "test_small_fractions_do_not_count": ("getter-*", "oracle-0.009-*"),
        "test_use_f_stops_with_a_probability_of_one_minus_f": ("getter-*", "oracle-0.5"),
    },
    "tracking/growth/overlap": {
        "test_no_seed_is_lost_where_the_device_has_no_memory": (
            "start-False", "pack-True", "enlist-True",
        ),
        "test_products_are_the_same": ("7-False-True", "7-True-False", "50-*"),
        "test_streamlines_are_the_same": (
            "regions-more1-False", "even-more0-False", "plain-more1-True", "regions-more0-True",
            "even-more1-True",
        ),
    },
    "tracking/growth/pace": {"test_launches_are_short_on_any_device": ("1000*", "40000*")},
    "tracking/parity": {"test_the_whole_is_dipys_local_tracking": ("det-*",)},  # dipy/local_tracking has the others
    "tracking/products/device_density": {
        "test_runs_along_peaks": ("more[01]",), "test_steps_along_vertices_and_with_a_frame": ("prob",),
    },
    "tracking/products/soft_parcellations": {
        "test_probabilities_of_0_and_1_make_the_bytes_that_labels_make": ("weighted-*",),
        "test_files_that_are_read_in_other_ways": ("several*", "mif"),
    },
    "tracking/products/labels": {"test_labels_that_are_accepted": ("rounded", "whole", "slope and*", "an axis*")},
    "tracking/products/mrtrix_commands": {"test_tckmap": ("*tdi_color*",)},
    "tracking/recovery/backtracking": {
        "test_more_streamlines_end_validly": ("ifod2",), "test_with_the_rules_of_dipy": ("act",),
        "test_what_counts_on_the_device_is_where_the_points_are": ("ifod2",),
    },
    "tracking/recovery/particles": {
        "test_each_step_is_that_of_dipys_algorithm": ("numba32-dipy-*", "*-few-*", "*-white-*"),
        "test_streamlines_are_dipys": ("act",),
    },
    "tracking/seeding/directed": {"test_ifod_begins_in_a_cone_around_them": ("ifod2",)},
    "tracking/seeding/interface": {"test_tckgen_spreads_seeds_alike": ("hard",)},
    "tracking/seeding/seed_grids": {"test_another_order_of_axes_changes_nothing": ("order2",)},
    "tracking/seeding/seeding": {
        "TestDirections::test_they_are_moved_a_little": ("small",),
        "TestRuns::test_threads_and_chunks_change_nothing": ("det-map", "det-grid", "prob-*", "boot-*"),
        "TestSurface::test_command_line_and_python_agree": ("map", "directions", "text"),
        "test_tckgen_places_seeds_alike": ("balls",),
    },
    "tracking/seeding/surfaces": {
        "TestMasks::test_they_are_those_of_the_surface_in_the_mask": ("False",),
        "TestRuns::test_parts_and_resumed_runs_are_the_whole": ("more0",),
    },
    "tracking/selection/dropped": {
        "test_a_run_that_goes_on_has_the_counts_of_one_run": ("5-*", "None-lost"),
        "test_counts_do_not_depend_on_chunks_threads_and_devices": ("None",),
    },
    "tracking/selection/many_regions": {
        "test_many_regions_keep_what_filtering_afterwards_would": ("prob-28",),
        "test_streamlines_stop_once_many_regions_are_visited": ("prob",),
        "test_voxels_that_are_taken_together_are_certain_of_all_their_points": ("0.9", "0.3"),
    },
    "tracking/selection/regions": {
        "test_truncated_streamlines_have_what_the_forward_half_leaves": ("prob-*",),
    },
    "tracking/stopping/act5": {
        "test_as_many_are_accepted_as_by_tckgen": ("ifod1-*",),
        "test_chunks_and_threads_do_not_matter": ("recovered",),
    },
    "tracking/stopping/alignment": {"test_a_phantoms_series": ("boot",)},
    "tracking/stopping/anatomy": {"test_valid_ends_are_what_is_kept": ("act",)},
    "tracking/stopping/cropping": {"test_ends_in_the_cortex_lie_at_its_interface": ("ifod2",)},
    "tracking/stopping/stopping_seam": {
        "test_a_filter_can_end_streamlines_early": ("python", "numba32"),
        "test_a_rule_reads_channels_draws_and_keeps_its_end_point_or_not": ("numba32-1-*", "python-3-*", "numba64-3-*"),
        "test_no_rule_ends_a_streamline_at_its_seed": ("numba32-*", "python-0"),
    },
    "tracking/stopping/tissues": {"test_a_run_without_a_series_warns": ("act",)},
    "tracking/tables/rows": {
        "test_rows_that_no_step_reads_and_chunks_and_threads_change_nothing": (
            "*prob*act*",
        ),
    },
    "tracking/weights/odd_weights": {"test_sums_scale_with_the_weights": ("-96", "60")},
    "tracking/weights/sift2": {"test_weights_are_those_of_tcksift2": ("grey matter",)},
    "tracking/weights/visits_in_files": {
        "test_devices_weigh_alike_under_a_limit": ("cuda", "metal", "amd*"),  # backends/conformance weighs on lavapipe
        "test_a_limit_does_not_change_the_weights": ("1-1-8000-*", "2-9-28000-*"),
    },
    "tracking/weights/weighted": {
        "test_a_weight_counts_as_so_many_streamlines": ("sample", "mean-length", "ends"),
    },
}
tried: dict[str, bool] = {}  # tests of BY_DAY that were collected -> whether the day has a case of them


def at_night(*cases: object) -> list:
    """Mark cases, each a value or a plain tuple: ``[*by_day, *at_night(...)]`` are those of a parametrization."""
    rows: Iterable[tuple] = (case if type(case) is tuple else (case,) for case in cases)
    return [pytest.param(*row, marks=pytest.mark.nightly) for row in rows]


def few_by_day(cases: Iterable[object], every: int = 3) -> list:
    """Return cases that are alike: the first of every so many by day, and all of them at night."""
    rows = list(cases)
    return [row if number % every == 0 else at_night(row)[0] for number, row in enumerate(rows)]


def leave_to_the_night(item: pytest.Function, place: str, name: str) -> None:
    """Mark a case nightly if BY_DAY does not keep it."""
    patterns = BY_DAY.get(place, {}).get(name)
    if patterns is None:
        return
    by_day = any(fnmatchcase(item.callspec.id, pattern) for pattern in patterns)
    test = f"{place}::{name}"
    tried[test] = tried.get(test, False) or by_day
    if not by_day:
        item.add_marker(pytest.mark.nightly)
