"""Root trees of Ceph releases, built once from Debian's packages and exported in the form each provider wants."""
