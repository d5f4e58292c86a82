"""The benchmark suite: arch targets and peers, on the same data in the same run.

``suite`` and ``sweeping`` decide what runs and gather the results, each run a process of its own (``runs`` starts
``worker``) that calls one of ``targets.TARGETS`` on one of ``cases.CASES``; ``measures`` says what is measured of its
streamlines; ``limits`` times the device itself; ``tables``, ``report`` and ``page`` tell what was found; ``compare``
sets it beside earlier results.

Results are one JSON object, schema 1::

    schema          1
    created         UTC time, ISO 8601
    command         the command line
    commit          of the source tree, "" if unknown
    note            what a reader has to know, written by hand; seldom there
    machine         cpu, cores, memory_bytes, system, devices: [{arch, name, driver, memory_bytes, software}],
                    versions: {package: version}
    limits          {arch: {device, bytes_per_second, multiply_adds_per_second}}, or {arch: {reason}} where it failed
    runs            a list of runs, see below
    sweeps          a list of {name, unit, case, dg, target, values: [], seconds: [], points: [], peak_host_bytes: []}
    densities       {"case dg": {target: [[...]]}}: maximum projections of streamline density, rows of counts
    lengths         {"case dg": {"edges_mm": [], target: [counts]}}: histograms of lengths

A run::

    case, dg, model, target, kind       kind is arch (one of ours) or peer
    nseeds, threads, chunk_size, exact  null where it does not apply
    status, reason                      ok, missing, failed or timeout; the last line of what it said
    seconds         {compile, prepare, write, total, track, track_least, track_greatest, repeats: [], stages: {}}
                    track is the median of the repeats: from seeds to points in the host's memory; null where unknown.
                    Our points are let go a batch at a time, as when a file is written; peers hand over all at once
    streamlines, points, mean_points, median_points, mean_mm, median_mm
    points_per_second, streamlines_per_second      by track
    crossing        streamlines with points on both sides of the image's middle sagittal plane, more than 2 mm from it
    commissural     by the published definition: ends on both sides of it
    sha256          of the points, "" for peers
    peak_host_bytes, device_bytes, copied_bytes    null where unknown
    density_correlation, length_ks, identical      {other target: number} of the same case and dg
    truth           {valid, invalid, none, bundles, overlap, overreach} on phantoms, shares of streamlines or voxels;
                    null elsewhere
    limit_share     {bytes, operations}: counted bytes and operations a second over the device's; null where unknown
"""

SCHEMA = 1
