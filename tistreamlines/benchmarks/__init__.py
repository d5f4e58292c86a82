"""The benchmark suite: arch targets and peers, on the same data in the same run.

A target is a program that tracks: an arch of tistreamlines, or a peer (DIPY, cuslines, MRtrix3). ``suite`` and
``sweeping`` run what a ``schedule`` lists and collect the results. Each run has its own process (``runs`` starts
``worker``), which calls one of ``targets.TARGETS`` on one of ``cases.CASES``. ``files`` times whole commands instead.
``measures`` computes statistics of the streamlines, ``limits`` measures the peak rates of a device, ``tables``,
``report`` and ``page`` write the results, and ``compare`` compares them with earlier ones.

Results are one JSON object, schema 1::

    schema          1
    created         UTC time, ISO 8601
    command         the command line
    commit          of the source tree, "" if unknown
    note            a remark for the reader, written by hand; optional
    machine         cpu, cores, memory_bytes, system, versions: {package: version},
                    devices: [{arch, name, driver, memory_bytes, software, compiler (of a GPU)}]
    limits          {arch: {device, bytes_per_second, multiply_adds_per_second}}, or {arch: {reason}} if it failed
    runs            a list of runs, see below
    sweeps          a list of {name, unit, case, dg, target, values: [], seconds: [], points: [], peak_host_bytes: []}
    densities       {"case dg": {target: [[...]]}}: maximum projections of streamline density, rows of counts
    files           a list of whole commands, see below
    lengths         {"case dg": {"edges_mm": [], target: [counts]}}: histograms of lengths

A run::

    case, dg, model, target, kind       kind is arch (one of ours) or peer
    nseeds, threads, chunk_size, exact  null if not applicable
    device, devices                     name; how many GPUs shared the seeds, null if one did
    status, reason                      ok, missing, failed or timeout; the last line of its output
    seconds         {compile, prepare, write, total, track, track_least, track_greatest, repeats: [], stages: {}}
                    track is the median of the repeats, from seeds to points in the host's memory; null if unknown.
                    The archs' points are released batch by batch, as when a file is written; peers return all points
                    at once
    streamlines, points, mean_points, median_points, mean_mm, median_mm
    points_per_second, streamlines_per_second      relative to track
    crossing        streamlines with points on both sides of the image's middle sagittal plane, more than 2 mm from it
    commissural     streamlines with ends on both sides of it, as in the publication of cuslines
    sha256          of the points, "" for peers
    peak_host_bytes, device_bytes, copied_bytes    null if unknown
    density_correlation, length_ks, identical      {other target: number} for the same case and dg
    truth           {valid, invalid, none, bundles, overlap, overreach} on phantoms, fractions of streamlines or
                    voxels; null for other data
    limit_share     {bytes, operations}: counted bytes and operations per second over the device's; null if unknown

A whole command, from files to a tractogram::

    case, dg, model, target, nseeds, threads, status, reason, device    as for a run; device is "" for peers
    arch            the target if it is one of ours, else ""
    kind            cold, warm or cached: what the caches held, see ``cases.KINDS``
    seconds         from the start of the process to its end; the median of the repeats
    repeats         seconds of each process
    stages          {start and exit, load, fit, prepare, compile, track, write} of the median one, those that are known
    streamlines, points, version                                        of the file; of the program
"""

SCHEMA = 1
