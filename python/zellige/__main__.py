"""The program ``zellige``: ``python -m zellige``, and the script of that name that the wheel installs."""

import sys


def main() -> int:
    from ._native import run_program

    return run_program(["zellige", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
