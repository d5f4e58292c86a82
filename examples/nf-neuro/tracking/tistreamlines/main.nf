// Tracks an fODF with tistreamlines, in place of TRACKING_LOCALTRACKING, from the same inputs.
process TRACKING_TISTREAMLINES {
    tag "$meta.id"
    label 'process_high_memory'

    // an image that has "pip install tistreamlines" in it; with a GPU, give the container access to it
    container task.ext.container ?: "tistreamlines:latest"

    input:
    tuple val(meta), path(wm), path(fodf), path(fa)

    output:
    tuple val(meta), path("*__tistreamlines.${task.ext.format ?: 'trk'}"), emit: tractogram
    tuple val(meta), path("*__tistreamlines.json")                       , emit: config
    tuple val(meta), path("*__tistreamlines_density.nii.gz")             , emit: density
    tuple val(meta), path("*__tistreamlines_stats.json")                 , emit: global_mqc
    path "versions.yml"                                                  , emit: versions

    when:
    task.ext.when == null || task.ext.when

    script:
    def prefix = task.ext.prefix ?: "${meta.id}"
    def format = task.ext.format ?: "trk"
    def basis = task.ext.basis ?: "descoteaux07_legacy"
    def arch = task.ext.arch ?: "auto"
    def dg = task.ext.dg ?: "prob"
    // of a mask or a probability map, voxels of at least 0.5 are inside
    def seeding = task.ext.seeds_per_voxel ? "--seeds-per-voxel ${task.ext.seeds_per_voxel}" : "--nseeds ${task.ext.nseeds ?: 1000000}"
    def random_seed = task.ext.random_seed != null ? "--seed-seed ${task.ext.random_seed} --rng-seed ${task.ext.random_seed}" : ""
    def stop_threshold = task.ext.fa_threshold != null ? "--stop-threshold ${task.ext.fa_threshold}" : "--stop-threshold 0.1"
    def step = task.ext.step ? "--step-size ${task.ext.step}mm" : ""
    def angle = task.ext.max_angle ? "--max-angle ${task.ext.max_angle}" : ""
    def min_length = task.ext.min_length != null ? "--min-length ${task.ext.min_length}" : ""
    def max_length = task.ext.max_length ? "--max-length ${task.ext.max_length}" : ""
    def args = task.ext.args ?: ""

    """
    tistreamlines track --quiet \\
        --sh $fodf --sh-basis $basis --dg $dg \\
        --stop-map $fa $stop_threshold --seed-mask $wm $seeding $random_seed \\
        $step $angle $min_length $max_length \\
        --arch $arch --threads $task.cpus \\
        --density ${prefix}__tistreamlines_density.nii.gz \\
        --json-stats ${prefix}__tistreamlines_stats.json \\
        --output ${prefix}__tistreamlines.${format} $args

    cat <<-END_VERSIONS > versions.yml
    "${task.process}":
        tistreamlines: \$(tistreamlines --version | sed 's/.* //')
    END_VERSIONS
    """

    stub:
    def prefix = task.ext.prefix ?: "${meta.id}"
    def format = task.ext.format ?: "trk"
    """
    tistreamlines track --help

    touch ${prefix}__tistreamlines.${format}
    touch ${prefix}__tistreamlines.json
    touch ${prefix}__tistreamlines_density.nii.gz
    touch ${prefix}__tistreamlines_stats.json

    cat <<-END_VERSIONS > versions.yml
    "${task.process}":
        tistreamlines: \$(tistreamlines --version | sed 's/.* //')
    END_VERSIONS
    """
}
