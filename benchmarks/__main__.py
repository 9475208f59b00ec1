"""``python -m benchmarks [--quick] [NAME ...]``: all benchmarks, or the named ones, in turn."""

import argparse

from benchmarks import accounting, cluster, hype, masks, neural_network, noise, paillier, svc, tree

BENCHMARKS = {
    "tree": tree.main,
    "svc": svc.main,
    "noise": noise.main,
    "accounting": accounting.main,
    "paillier": paillier.main,
    "masks": masks.main,
    "hype": hype.main,
    "neural_network": neural_network.main,
    "cluster": cluster.main,
}


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument("--quick", action="store_true", help="passed on to tree")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(BENCHMARKS):
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}")
    for name in arguments.names or BENCHMARKS:
        print(f"\n## {name}")
        if name == "tree":
            tree.main(["--quick"] if arguments.quick else [])
        else:
            BENCHMARKS[name]()


if __name__ == "__main__":
    main()
