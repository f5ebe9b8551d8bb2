"""Speed beside llama.cpp: the same files, tokens and threads, in turns, so that what else the machine does meets both.

    python3 compare.py --infer target/release/capos-infer --models DIR [--rounds N] [--threads 1,2] [--kernels NAME]
                       [--json FILE] [NAME …]

The files are those of models.py and have to be there. Of each side the best round counts.
"""

import argparse
import json
import pathlib
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
    best = {"decode": 0.0, "prefill": 0.0, "bandwidthFraction": 0.0}
    best_of_peer = {"decode": 0.0, "prefill": 0.0}
    for _ in range(rounds):
        found = ours(infer, path, threads, kernels)
        best["prefill"] = max(best["prefill"], found["prefillPerSecond"])
        best["decode"] = max(best["decode"], found["decodePerSecond"])
        best["bandwidthFraction"] = max(best["bandwidthFraction"], found["bandwidthFraction"])
        prefill, decode = peer.speed(PROMPT, COUNT)
        best_of_peer["prefill"] = max(best_of_peer["prefill"], prefill)
        best_of_peer["decode"] = max(best_of_peer["decode"], decode)
    peer.close()
    return {
        "file": path.stem,
        "threads": threads,
        "kernels": found["kernels"],
        **best,
        "decodeOfPeer": best_of_peer["decode"],
        "prefillOfPeer": best_of_peer["prefill"],
        "decodeRatio": best["decode"] / best_of_peer["decode"],
        "prefillRatio": best["prefill"] / best_of_peer["prefill"],
    }


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
    print(
        f"{'file':14} {'threads':>7} {'decode':>9} {'llama.cpp':>9} {'ratio':>6} {'of memory':>9} "
        f"{'prefill':>9} {'llama.cpp':>9} {'ratio':>6}"
    )
    for name in options.names:
        for threads in map(int, options.threads.split(",")):
            path = options.models / f"{name}.gguf"
            line = compare(options.infer, path, threads, options.rounds, options.kernels)
            found.append(line)
            print(
                f"{name:14} {threads:7} {line['decode']:9.1f} {line['decodeOfPeer']:9.1f} {line['decodeRatio']:6.2f} "
                f"{line['bandwidthFraction']:9.0%} "
                f"{line['prefill']:9.1f} {line['prefillOfPeer']:9.1f} {line['prefillRatio']:6.2f}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
