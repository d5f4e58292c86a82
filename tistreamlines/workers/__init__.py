"""Sessions, which open every engine, and several devices: a process for each, and what it exchanges with the run."""
