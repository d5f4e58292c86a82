"""The developers' benchmark: the suite of the package with more peers, sweeps, limits of devices and whole commands.

``python benchmarks/suite`` has the options of ``tistreamlines benchmark`` and its own (``__main__``). ``comparison``
runs what a ``schedule`` lists, each run in a process (``worker``), which calls one of ``targets.TARGETS``. ``sweeping``
varies a setting, ``files`` times whole commands, ``limits`` measures the peak rates of a device, ``tractometer``
compares with the truth of a phantom, ``tables``, ``report`` and ``page`` write the results, and ``compare`` compares
them with earlier ones.

Results are those of ``tistreamlines.benchmarks`` with more entries::

    limits          {arch: {device, bytes_per_second, multiply_adds_per_second}}, or {arch: {reason}} if it failed
    sweeps          a list of {name, unit, case, dg, model, target, values: [], seconds: [], points: [],
                    peak_host_bytes: []}
    densities       {"case dg": {target: [[...]]}}: maximum projections of streamline density, rows of counts
    lengths         {"case dg": {"edges_mm": [], target: [counts]}}: histograms of lengths
    files           a list of whole commands, see below
    commit          of the source tree, "" if unknown
    kernels         fingerprint of the kernels, ``records.kernels``
    note            a remark for the reader, written by hand; optional

A run also has, in place of ``work``::

    seconds         with write, the seconds to write the streamlines of an arch as TRX
    crossing        streamlines with points on both sides of the image's middle sagittal plane, more than 2 mm from it
    commissural     streamlines with ends on both sides of it, as in the publication of cuslines
    truth           {valid, invalid, none, bundles, overlap, overreach} on phantoms, fractions of streamlines or
                    voxels; null for other data
    limit_share     {bytes, operations}: counted bytes and operations per second over the device's; null if unknown

A whole command, from files to a tractogram::

    case, dg, model, target, nseeds, threads, status, reason, device    as for a run; device is "" for peers
    arch            the target if it is one of ours, else ""
    kind            cold, warm or cached: what the caches held, see ``schedule.KINDS``
    seconds         from the start of the process to its end; the median of the repeats
    repeats         seconds of each process
    stages          {start and exit, load, fit, prepare, compile, track, write} of the median one, those that are known
    streamlines, points, version                                        of the file; of the program
"""
