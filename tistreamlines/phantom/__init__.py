"""A generated head of known bundles, for the demo, the tests and the benchmark."""
