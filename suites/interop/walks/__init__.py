"""Drawn walks over RADOS, RBD and S3 through both architectures, held against a model in memory."""
