"""Replaces bcrypt inside ceph-mgr and loads the real module on first use.

bcrypt is built with PyO3, which a second interpreter of the same process cannot import. ceph-mgr gives each of its
modules an interpreter, and most import bcrypt (through mgr_util) without ever calling it.
"""

import importlib.util
import sys


def __getattr__(name):
    for folder in sys.path:
        spec = _spec(folder)
        if spec is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return getattr(module, name)
    raise ImportError("the image has no bcrypt")


def _spec(folder):
    path = f"{folder}/bcrypt/__init__.py"
    try:
        with open(path):
            places = [f"{folder}/bcrypt"]
            return importlib.util.spec_from_file_location("bcrypt", path, submodule_search_locations=places)
    except OSError:
        return None
