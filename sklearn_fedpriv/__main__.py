"""``python -m sklearn_fedpriv demo``."""

import argparse

from sklearn_fedpriv._demo import DATA, run_demo


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m sklearn_fedpriv")
    commands = parser.add_subparsers(required=True)
    demo = commands.add_parser("demo", help="several parties train one private tree on real data")
    demo.add_argument("--data", choices=sorted(DATA), default="hospitals")
    demo.add_argument("--repeats", type=int, default=10, help="fits behind each mean")
    demo.add_argument("--picture", default="demo.png", help="file of the picture")
    arguments = parser.parse_args()
    try:
        run_demo(arguments.data, repeats=arguments.repeats, picture=arguments.picture)
    except (OSError, ImportError) as error:  # no data, no matplotlib: the text says what to do
        parser.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()
