"""Root trees of Ceph releases, built once from Debian packages and exported in the form that each provider needs."""
