"""C sources that are preloaded into emulated daemons, and their compilation for either architecture."""
