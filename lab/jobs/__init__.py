"""Loads described in files: the lab's own job file, and importers for the files of COSBench and CBT."""
