"""Random walks over RADOS, RBD and S3 through both architectures, compared with a model in memory."""
