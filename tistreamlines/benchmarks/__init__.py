"""The benchmark suite: arch targets and peers, on the same data in the same run.

A target is a program that tracks: an arch of tistreamlines, or DIPY as a peer. ``suite`` runs what a ``Schedule`` lists
and collects the results. Each run has a separate process (``worker``), which calls one of ``targets.TARGETS`` on one of
``cases.CASES``. ``tracked`` computes statistics of the streamlines, and ``tables`` and ``report`` write the results.
Measurements for developers are in the repository's ``benchmarks/suite``.

Results are one JSON object, schema 1::

    schema          1
    created         UTC time, ISO 8601
    command         the command line
    machine         cpu, cores, memory_bytes, system, versions: {package: version},
                    devices: [{arch, name, driver, memory_bytes, software, compiler (of a GPU)}]
    runs            a list of runs, see below

A run::

    case, dg, model, target, kind       kind is arch (one of ours) or peer
    nseeds, threads, chunk_size, exact  null if not applicable
    device, devices                     name; how many GPUs shared the seeds, null if one did
    status, reason                      ok, missing, failed or timeout; the last line of its output
    seconds         {compile, prepare, total, track, track_least, track_greatest, repeats: [], stages: {}}
                    track is the median of the repeats, from seeds to points in the host's memory; null if unknown.
                    The archs' points are released batch by batch, as when a file is written; peers return all points
                    at once
    streamlines, points, mean_points, median_points, mean_mm, median_mm
    points_per_second, streamlines_per_second      relative to track
    sha256          of the points, "" for peers
    peak_host_bytes, device_bytes, copied_bytes    null if unknown
    work            bytes read and operations done per point; null if they were not counted
    density_correlation, length_ks, identical      {other target: number} for the same case and dg
"""

SCHEMA = 1
