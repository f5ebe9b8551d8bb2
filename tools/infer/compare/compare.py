"""Speed compared with llama.cpp: the same files, tokens and threads, in turns, so that other work of the machine
affects both.

    python3 compare.py --infer target/release/capos-infer --models DIR [--rounds N] [--threads 1,2] [--kernels NAME]
                       [--rows N] [--json FILE] [--peers PYTHON …] [--] [NAME …]

The files are those of models.py and have to be there. The best round of each side counts; the least, middle and
greatest ratios of single rounds show the spread. With several builds of llama.cpp the better one counts, in each
round and for each figure. A build that fails is left out, with a line that says so.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys

from models import FILES

PROMPT = 256
COUNT = 64
# How often a pass of few tokens is made in a round, as `capos-infer bench` does.
REPEAT = 4


class Peers:
    """A model file, open in every build of llama.cpp."""

    def __init__(self, pythons, path, threads):
        command = [str(pathlib.Path(__file__).with_name("peer.py")), str(path), str(threads)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.running = {python: subprocess.Popen([python, *command], **pipes) for python in pythons}

    def ask(self, *question):
        """The answers of each build."""
        answers = []
        for python, process in list(self.running.items()):
            try:
                process.stdin.write(json.dumps(question) + "\n")
                process.stdin.flush()
                line = process.stdout.readline()
            except BrokenPipeError:
                line = ""
            if line:
                answers.append(json.loads(line))
                continue
            print(f"{python} has ended ({process.wait()}) and is left out", file=sys.stderr)
            del self.running[python]
        if not answers:
            raise RuntimeError("no build of llama.cpp is left")
        return answers

    def speed(self, prompt, count):
        """Tokens a second of the better build."""
        return [max(found) for found in zip(*self.ask("speed", prompt, count))]

    def passes(self, prompt, most, repeat):
        """Seconds of the better build."""
        return [min(found) for found in zip(*self.ask("passes", prompt, most, repeat))]

    def close(self):
        for process in self.running.values():
            process.stdin.close()
            process.wait()


def ours(infer, path, threads, kernels, rows):
    """Tokens a second of one round: of a prompt, and of those that follow."""
    command = [infer, "bench", path, "-p", str(PROMPT), "-n", str(COUNT), "-t", str(threads), "--repeat", "1", "--json"]
    command += ["--rows", str(rows)]
    command += ["--kernels", kernels] if kernels else []
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return found


def compare(infer, path, threads, options):
    peer = Peers(options.peers, path, threads)
    peer.speed(PROMPT, 4)
    own, other = [], []
    passes = []
    for _ in range(options.rounds):
        own.append(ours(infer, path, threads, options.kernels, options.rows))
        other.append(dict(zip(("prefill", "decode"), peer.speed(PROMPT, COUNT))))
        passes.append(peer.passes(PROMPT, options.rows, REPEAT) if options.rows else [])
    peer.close()
    line = {"file": path.stem, "threads": threads, "kernels": own[-1]["kernels"]}
    line["bandwidthFraction"] = max(found["bandwidthFraction"] for found in own)
    line["passMilliseconds"] = [1e3 * min(found) for found in zip(*(found["passSeconds"] for found in own))]
    line["passMillisecondsOfPeer"] = [1e3 * min(found) for found in zip(*passes)]
    for what in ("decode", "prefill"):
        mine, theirs = [found[f"{what}PerSecond"] for found in own], [found[what] for found in other]
        # Per round: a disturbance longer than a round affects both sides of it.
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
    parser.add_argument("--rows", type=int, default=16, help="up to how many tokens a pass is timed with; 0: not at all")
    parser.add_argument("--peers", nargs="+", default=[sys.executable], help="Pythons, each with a build of llama.cpp")
    parser.add_argument("--json", type=pathlib.Path, help="where all figures go")
    options = parser.parse_args()
    found = []
    side = f"{'llama.cpp':>9} {'ratio (of rounds)':>23}"
    print(f"{'file':14} {'threads':>7} {'decode':>9} {side} {'of memory':>9} {'prefill':>9} {side}")
    for name in options.names:
        for threads in map(int, options.threads.split(",")):
            path = options.models / f"{name}.gguf"
            line = compare(options.infer, path, threads, options)
            found.append(line)
            print(
                f"{name:14} {threads:7} {line['decode']:9.1f} {line['decodeOfPeer']:9.1f} {ratio(line, 'decode'):>23} "
                f"{line['bandwidthFraction']:9.0%} "
                f"{line['prefill']:9.1f} {line['prefillOfPeer']:9.1f} {ratio(line, 'prefill'):>23}",
                flush=True,
            )
    if options.rows:
        print("\nmilliseconds of a pass of 1, 2, 3 … tokens; under them llama.cpp's, and how many times as long those are")
    for line in found if options.rows else []:
        own, other = line["passMilliseconds"], line["passMillisecondsOfPeer"]
        ratios = [two / one for one, two in zip(own, other)]
        for name, numbers in ((line["file"], own), ("llama.cpp", other), ("", ratios)):
            print(f"{name:14} {line['threads']:7}", *(f"{number:7.2f}" for number in numbers))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
