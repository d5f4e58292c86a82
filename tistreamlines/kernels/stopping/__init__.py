"""Stopping rules: those by maps of the tracked image, and that by five tissues on another grid.

The maps of a rule are the last STOP_CHANNELS numbers of a voxel's row, from STOP_CHANNEL on, and are interpolated with it.  A
rule's file has a record, whose fields are its parameters, and ``classify(stopping, volume, p, row, c0, c1, c2, key)``, which
answers for the point ``p`` GROWING or a reason of :class:`..stop_reasons.Stop`.  The counters are those of the stream STOPPING of :mod:`...linker.rng`, for rules
that draw random numbers: the same point always has the same draws.
"""
