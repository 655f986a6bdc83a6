"""Where hosts come from: one module a provider, listed here, chosen by capability."""
