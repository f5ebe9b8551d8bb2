"""Speed beside llama.cpp: the same files, tokens and threads, in turns, so that what else the machine does meets both.

    python3 compare.py --infer target/release/capos-infer --models DIR [--rounds N] [--threads 1,2] [--kernels NAME]
                       [--json FILE] [NAME …]

The files are those of models.py and have to be there. Of each side the best round counts; the ratios of
single rounds, least, middle and greatest, say how much that is worth.
"""

import argparse
import json
import pathlib
import statistics
import subprocess

from llama import Peer
from models import FILES

PROMPT = 256
COUNT = 64


def ours(infer, path, threads, kernels):
    """Tokens a second of one round: of a prompt, and of those that follow."""
    command = [infer, "bench", path, "-p", str(PROMPT), "-n", str(COUNT), "-t", str(threads), "--repeat", "1", "--json"]
    command += ["--kernels", kernels] if kernels else []
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def compare(infer, path, threads, rounds, kernels):
    peer = Peer(path, threads)
    peer.speed(PROMPT, 4)
    own, other = [], []
    for _ in range(rounds):
        own.append(ours(infer, path, threads, kernels))
        other.append(dict(zip(("prefill", "decode"), peer.speed(PROMPT, COUNT))))
    peer.close()
    line = {"file": path.stem, "threads": threads, "kernels": own[-1]["kernels"]}
    line["bandwidthFraction"] = max(found["bandwidthFraction"] for found in own)
    for what in ("decode", "prefill"):
        mine, theirs = [found[f"{what}PerSecond"] for found in own], [found[what] for found in other]
        # Of each round: what lasted longer than a round is in both sides of it.
        ratios = [one / two for one, two in zip(mine, theirs)]
        line[what], line[f"{what}OfPeer"] = max(mine), max(theirs)
        line[f"{what}Ratio"] = max(mine) / max(theirs)
        line[f"{what}Ratios"] = [min(ratios), statistics.median(ratios), max(ratios)]
    return line


def ratio(line, what):
    """The ratio of the best rounds, and the least, middle and greatest of single rounds."""
    return f"{line[f'{what}Ratio']:6.2f} ({' '.join(f'{found:.2f}' for found in line[f'{what}Ratios'])})"


def main():
    parser = argparse.ArgumentParser(description="Speed beside llama.cpp.")
    parser.add_argument("names", nargs="*", default=list(FILES), metavar="NAME", help="of the files in models.py")
    parser.add_argument("--infer", required=True, help="the program capos-infer")
    parser.add_argument("--models", required=True, type=pathlib.Path, help="the folder of the files")
    parser.add_argument("--rounds", type=int, default=5, help="how often each side is measured")
    parser.add_argument("--threads", default="2,1", help="with how many threads, with commas between")
    parser.add_argument("--kernels", default="", help="with which kernels of capos-infer; else the fastest")
    parser.add_argument("--json", type=pathlib.Path, help="where all figures go")
    options = parser.parse_args()
    found = []
    side = f"{'llama.cpp':>9} {'ratio (of rounds)':>23}"
    print(f"{'file':14} {'threads':>7} {'decode':>9} {side} {'of memory':>9} {'prefill':>9} {side}")
    for name in options.names:
        for threads in map(int, options.threads.split(",")):
            path = options.models / f"{name}.gguf"
            line = compare(options.infer, path, threads, options.rounds, options.kernels)
            found.append(line)
            print(
                f"{name:14} {threads:7} {line['decode']:9.1f} {line['decodeOfPeer']:9.1f} {ratio(line, 'decode'):>23} "
                f"{line['bandwidthFraction']:9.0%} "
                f"{line['prefill']:9.1f} {line['prefillOfPeer']:9.1f} {ratio(line, 'prefill'):>23}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
