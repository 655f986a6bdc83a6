"""Loads as people write them down: the lab's own job file, and what is read from COSBench's and CBT's."""
