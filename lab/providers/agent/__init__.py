"""The agent, a program inside guests and existing machines, and the host that is reached through it."""
