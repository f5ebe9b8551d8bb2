"""Tokens and logits compared with llama.cpp's, on the files of tests/infer: are they the same, and no farther from a
reference?

    python3 judge.py --infer target/debug/capos-infer [--kernels scalar,avx2] [--draws N] [--record] [MODEL …]
    python3 judge.py --infer target/debug/capos-infer --trained DIR [MODEL …]

Ends with a status of 1 where capos-infer does worse than llama.cpp. With --record, llama.cpp's answers are stored
next to the files, for tests without llama.cpp. With --trained, the models are those of `trained.py`, which are
fetched into DIR.
"""

import argparse
import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[3] / "tests" / "infer"
sys.path.insert(0, str(TESTS))

import judge_models  # noqa: E402  what it reads is in tests/infer
import judge_tokens  # noqa: E402
import judge_trained  # noqa: E402
import trained  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description="Tokens and logits beside llama.cpp's.")
    parser.add_argument("models", nargs="*", metavar="MODEL", help="of tests/infer/models, no tokens are compared then; or of the trained ones")
    parser.add_argument("--infer", required=True, help="the program capos-infer")
    parser.add_argument("--kernels", default="", help="with which kernels, with commas between; else the fastest")
    parser.add_argument("--draws", type=int, default=16, help="how often weights are drawn for each model, at least twice")
    parser.add_argument("--record", action="store_true", help="keep what llama.cpp said, for the tests")
    parser.add_argument("--trained", metavar="DIR", help="compare trained models in this folder instead")
    options = parser.parse_args()
    if options.trained:
        for name in options.models:
            if name not in trained.FILES:
                parser.error(f"there is no trained model {name}; there are {', '.join(trained.FILES)}")
        if options.kernels or options.record:
            parser.error("trained models are compared with the fastest kernels, and nothing of it is kept")
        ended(judge_trained.judge(options.infer, options.trained, options.models))
    answers, worse = judge_models.judge(options.infer, options.models, options.kernels.split(","), options.draws)
    if options.record and not options.models:
        (TESTS / "llama_cpp_models.json").write_text(judge_models.recorded(answers))
    if not options.models:
        answers, differences = judge_tokens.judge(options.infer)
        worse += differences
        if options.record:
            (TESTS / "llama_cpp_tokens.json").write_text(judge_tokens.recorded(answers))
    ended(worse)


def ended(worse):
    print("capos-infer does no worse than llama.cpp." if not worse else f"capos-infer does worse in {worse} places.")
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
