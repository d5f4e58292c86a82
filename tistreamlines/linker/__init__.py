"""The kernel language, its mathematics and random numbers, and how kernels become the text of one compiler."""
