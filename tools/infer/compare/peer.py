"""llama.cpp in a process of its own, for compare.py: a build of it for each compiler.

    python3 peer.py FILE THREADS

Each line that comes is a list: the name of a method of llama.Peer and its arguments. Its result is written as a line.
"""

import json
import sys

from llama import Peer


def main(path, threads):
    peer = Peer(path, int(threads))
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(getattr(peer, name)(*arguments)), flush=True)
    peer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
