"""Break the code on purpose, one small change at a time, and see that a test notices: `tox -e mutate`."""
