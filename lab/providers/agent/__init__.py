"""The agent, a program inside a machine with a kernel of its own, and the host that is reached through it.

Guests run it as their first process. Existing machines receive it over ssh.
"""
