"""Starts the command: as `cephlab`, and as `python -m cephlab` also where its script is not in PATH."""

import signal


def main() -> None:
    """Run the command. Ctrl-C while its code is still being loaded ends it at once, and not with a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from cephlab.cli.main import main as command
    from cephlab.cli.streams import prepare

    prepare()
    command()


if __name__ == "__main__":
    main()
