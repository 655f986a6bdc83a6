"""A cluster that exists, used as if the lab had made it; a guard lets nothing be touched that is not on a list."""
