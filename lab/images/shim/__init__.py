"""C sources preloaded into emulated daemons, and how they are compiled for either architecture."""
