"""Tests that take longest, by file as conftest.py names it: ``pytest -m "not slow"`` leaves them out.

Where a fixture takes long, all tests that use it are here.
"""

SLOW = {
    "attack/attack": ("test_a_few_tries",),
    "backends/amdgpu": (
        "test_code_objects_are_for_the_devices_architecture", "test_every_kernel_is_there",
        "test_products_are_not_fused", "test_wavefronts_have_64_threads",
    ),
    "backends/compilers": ("test_it_gives_the_cpus_bits",),
    "backends/conformance": ("test_chunks_and_threads_change_nothing", "test_devices_give_the_cpus_bits"),
    "backends/cuda": ("test_copies_and_memory", "test_what_taichi_compiles_is_known"),
    "backends/lost": (
        "test_a_device_that_is_lost_again_ends_it", "test_a_run_with_resume_survives", "test_one_line_and_nothing_left",
    ),
    "backends/metal": (
        "test_only_the_generator_takes_64_bits", "test_spirv_of_every_kernel_is_valid",
        "test_translates_to_metal_within_its_limits",
    ),
    "backends/one_taichi": (
        "test_arrays_that_are_let_go_are_freed", "test_runs_share_taichi_and_what_it_has_compiled",
        "test_taichi_is_not_taken_from_others_nor_by_them",
    ),
    "backends/taichi": (
        "test_fast_tracks_much_the_same", "test_known_random_words",
        "test_redrawn_fits_give_the_cpus_bits", "test_scalar_kernels_give_the_cpus_bits",
        "test_team_kernels_give_the_cpus_bits",
    ),
    "backends/taichi_devices": (
        "test_an_arch_that_is_missing_is_an_error", "test_kernels_compile_for_subgroups_of_32",
        "test_taichi_leaves_the_hosts_arithmetic_alone", "test_the_environment_cannot_change_the_arch",
    ),
    "backends/trial": (
        "test_a_device_whose_subgroups_are_smaller_than_it_says_is_caught",
        "test_devices_tell_what_they_are_tried_with",
        "test_the_users_choice_of_a_vulkan_device_is_heeded",
    ),
    "backends/tried": ( "test_another_version_gives_the_same_bits_and_a_note",
    ),
    "backends/two_threads": (
        "test_a_fit_goes_on_while_another_thread_imports",
        "test_the_list_of_environment_variables_stays_where_threads_read_it",
    ),
    "benchmarks/files": ("test_a_peer_reads_files_and_writes_a_file",),
    "benchmarks/limits": ("test_a_gpus_limits",),
    "benchmarks/report": ("test_equal_results_give_equal_bytes", "test_models_of_one_getter_are_kept_apart"),
    "benchmarks/suite": (
        "test_devices_that_share_the_seeds", "test_peers_track_what_archs_track",
        "test_runs_that_crash_hang_or_are_missing_are_told_and_the_rest_goes_on",
        "test_the_command_writes_three_reports", "test_what_a_process_started_ends_with_it",
    ),
    "benchmarks/truth/quality": ("test_the_script_scores_ways_and_tells_why_one_fails", "test_ways_follow_the_fibres"),
    "benchmarks/truth/truth": ("test_the_strands_themselves_are_valid",),
    "cli/cli": (
    ),
    "cli/getters": (),
    "cli/printing": ("test_a_full_disk_is_told_of_once", "test_a_stream_that_is_closed_from_the_start_is_one_line"),
    "cli/signals": (
        "test_too_late", "test_while_a_library_is_at_work",
        "test_while_it_tracks", "test_while_the_file_is_finished",
    ),
    "cli/verify": (
    ),
    "cuslines/tracker": (),
    "dipy/dipy": (
    ),
    "dipy/more": (
    ),
    "fit/csd_weight": ("test_more_streamlines_are_valid", "test_the_record_has_what_was_chosen"),
    "fit/frames": (
        "test_a_run_is_the_same_from_either_frame", "test_a_tracker_turns_coefficients_too",
        "test_gradients_come_to_the_voxel_axes", "test_harmonics_that_mrtrix_samples",
        "test_mrtrix_harmonics_come_to_the_voxel_axes",
    ),
    "fit/lobes": ("test_devices_give_the_cpus_bits",),
    "fit/order_and_volumes": ("test_the_angle_of_prob_follows_the_order_unless_it_is_given",),
    "fit/response": (
    ),
    "fit/shells": ("test_models_are_fitted_to_the_higher_shell", "test_one_shell_is_that_of_dwiextract"),
    "helpers": (
        "test_nor_by_the_tests_of_devices", "test_nothing_of_the_current_folder_is_imported",
        "test_warnings_of_libraries_are_no_errors",
    ),
    "io/cache": ("test_every_array_is_as_long_as_the_kernels_take_it_for",),
    "io/mif": ("test_a_real_series_and_its_streamlines",),
    "io/mif_runs": ("test_tissues",),
    "io/orientations": ("test_harmonics_come_back_as_functions",),
    "io/picture": ("test_direction_gives_the_colour_and_the_side_of_the_page",),
    "io/stored": ("test_every_type_byte_order_and_scaling",),
    "linker/link": ("test_numbas_cache_never_mixes_two_linkings",),
    "linker/maths": ("test_reference_dialects_have_float64",),
    "linker/rng": ("test_all_residuals_are_equally_likely", "test_dialects_draw_the_same"),
    "linker/store": (
        "test_a_run_that_finds_all_functions_compiled_does_without_numba",
        "test_forked_workers_track_on_the_cpu_and_refuse_a_gpu", "test_taichi_runs_where_nothing_can_be_written",
        "test_variables_that_keep_numba_from_compiling_are_one_line",
    ),
    "options/idle": ("test_an_option_alone_does_something_or_is_refused",),
    "phantom/phantom": ("test_act_ends_streamlines_at_the_cortex",),
    "plugins": ("test_a_worker_knows_it", "test_without_the_weight_it_is_like_prob"),
    "repository/examples": ("test_nipype_node", "test_own_product"),
    "repository/site": ("test_pages_load_nothing_from_the_network",),
    "run/api_memory": (),
    "run/api_objects": (
        "test_density_is_a_product", "test_stopping_rules_and_regions", "test_the_bits_are_those_of_keywords",
    ),
    "run/cluster": (
        "test_a_worker_tracks_one_part_at_a_time_in_one_process",
        "test_an_output_that_a_lost_worker_still_writes_is_waited_for", "test_arrays_images_and_objects",
        "test_killed_workers_change_no_byte", "test_many_subjects",
    ),
    "run/estimate": (
    ),
    "run/fixels": ("test_mrtrix_reads_the_folder",),
    "run/group_folders": ("test_every_output_is_written",),
    "run/mapping": ("test_vulkan_has_the_same_bytes",),
    "run/one_process": ("test_the_bytes_of_several_processes",),
    "run/parts": (),
    "run/plan": (),
    "run/product_runs": ("test_several_devices_of_which_one_is_lost", "test_vulkan"),
    "run/progress": ("test_a_notebook_sees_a_bar", "test_sift2_prepares_in_a_stage_of_its_own"),
    "run/samples": ("test_particles_look_for_a_way_on", "test_the_cache_keeps_the_tables"),
    "run/record": (),
    "tracking/convergence": (
        "test_arcs_are_of_the_second_order", "test_deterministic_errors_are_of_the_first_order",
        "test_exact_arcs_solve_the_frames_equation", "test_shorter_steps_of_parallel_transport_stay_closer",
    ),
    "tracking/growth/pace": ("test_launches_are_short_on_any_device",),
    "tracking/growth/sizes": ("test_cutting_a_run_changes_no_bit_and_keeps_the_limit",),
    "tracking/getters/asymmetric": (
    ),
    "tracking/getters/boot": (
        "test_a_direction_is_missing_as_often_as_dipys", "test_a_redraw_follows_its_rule",
        "test_compiled_dialects_draw_the_same_coefficients", "test_drawn_coefficients_have_dipys_mean_and_covariance",
        "test_plain_coefficients_in_float32",
    ),
    "tracking/getters/det": (
        "test_directions_are_dipys", "test_peaks_follow_their_options", "test_single_precision_chooses_the_same",
    ),
    "tracking/getters/prob": (
        "test_an_empty_cone_ends_the_streamline", "test_draws_follow_the_pmf", "test_initial_directions_are_dipys",
        "test_precisions_draw_the_same", "test_what_has_no_probability_is_never_drawn",
    ),
    "tracking/getters/ptt": (
        "test_data_support_is_dipys", "test_steps_follow_dipys_law", "test_the_nearest_vertex_is_dipys",
    ),
    "tracking/getters/ptt_lines": ("test_lengths_are_localtrackings",),
    "tracking/getters/ptt_surface": (),
    "tracking/getters/samples": ("test_the_getter_takes_the_steps_of_the_oracle",),
    "tracking/parity": ("test_float64_dialects_grow_the_same_streamlines", "test_parity_notices_a_wrong_constant"),
    "tracking/products/device_density": (
        "test_particles", "test_runs_along_peaks", "test_steps_along_vertices_and_with_a_frame",
    ),
    "tracking/products/products": (
        "test_a_filter_that_ends_streamlines_early_accepts_what_it_would_at_their_end",
        "test_a_product_sees_every_accepted_streamline_once",
    ),
    "tracking/recovery/particles": (
        "test_each_step_is_that_of_dipys_algorithm", "test_from_files",
        "test_in_nothing_but_fluid_each_trial_wins_the_steps_in_front",
        "test_particles_get_through_a_tube_in_which_streamlines_end",
    ),
    "tracking/registry": ("test_the_toy_rule_ends_streamlines_by_chance",),
    "tracking/seeding/seed_grids": ("test_another_order_of_axes_changes_nothing",),
    "tracking/seeding/seeding": ( "test_tckgen_places_seeds_alike",
    ),
    "tracking/selection/dropped": (
        "test_counts_do_not_depend_on_chunks_threads_and_devices", "test_ends_of_the_streamlines_written",
        "test_regions_out_of_turn",
    ),
    "tracking/selection/many_regions": (
        "test_a_gpu_takes_many_regions_of_every_kind", "test_many_ordered_regions",
        "test_many_regions_keep_what_filtering_afterwards_would", "test_particles_and_many_regions",
        "test_streamlines_stop_once_many_regions_are_visited",
    ),
    "tracking/selection/regions": (
        "test_include_and_exclude_keep_what_filtering_afterwards_would",
        "test_only_the_final_points_of_particle_filtering_count", "test_ordered_regions_along_one_way",
        "test_streamlines_stop_once_all_regions_are_visited", "test_the_same_streamlines_as_tckedit",
        "test_truncated_streamlines_have_what_the_forward_half_leaves",
    ),
    "tracking/stopping/anatomy": ("test_cmc_stops_as_often_as_it_should", "test_valid_ends_are_what_is_kept"),
    "tracking/stopping/own_grid": (
        "test_halves_end_where_the_rule_says", "test_regions_look_at_what_the_verdict_has_left",
    ),
    "tracking/stopping/stopping_seam": (
        "test_a_filter_can_end_streamlines_early", "test_a_rule_reads_channels_draws_and_keeps_its_end_point_or_not",
        "test_no_rule_ends_a_streamline_at_its_seed",
    ),
    "tracking/stopping/tissues": ("test_a_run_without_a_series_warns",),
    "viewer/view": ("test_a_browser_shows_it_without_an_error",),
    "workers/several": (
        "test_a_caller_that_stops_and_starts_again", "test_a_filter_travels_with_its_kernels",
        "test_a_time_limit_leaves_whole_chunks", "test_directions_and_numbers_of_seeds",
        "test_memory_is_free_when_batches_are_gone", "test_selected_streamlines",
        "test_the_bits_and_counts_of_one_device", "test_two_workers_on_vulkan",
    ),
}
