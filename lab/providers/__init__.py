"""Providers of hosts: one package for each, listed in `select`, chosen by capability."""
