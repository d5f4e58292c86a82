"""The subcommands, from `track` and `batch` to `verify` and `benchmark`."""
