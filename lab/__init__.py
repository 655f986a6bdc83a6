"""Build, load, break and observe real Ceph clusters; a library without tests or thresholds."""
