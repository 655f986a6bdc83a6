"""What a cluster should be: nodes, disks, architectures, releases, and the files that say so."""
