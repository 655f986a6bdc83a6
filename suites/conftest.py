"""Every suite runs with the lab's pytest plugin."""

pytest_plugins = ["cephlab.fixtures.plugin"]
