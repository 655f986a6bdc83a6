"""`python -m cephlab` is the command `cephlab`, also where its script is not in PATH."""

from cephlab.cli.main import main

if __name__ == "__main__":
    main()
