"""Every suite runs with the lab's pytest plugin."""

pytest_plugins = ["fixtures.plugin"]
