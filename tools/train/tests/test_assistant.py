"""The model file that was trained: it must be of the form that data and workers have."""

import struct
import unittest
from pathlib import Path

from capos_model import gguf
from capos_model.__main__ import ABOUT, TEMPLATE

from .test_tokenizer import tokenizer

FILE = Path(__file__).parents[3] / "iso_root/boot/models/assistant.gguf"


class ModelFile(unittest.TestCase):
    def test_it_has_the_tokens_and_the_template_of_today(self):
        data = FILE.read_bytes()
        self.assertLessEqual(len(data), 48 << 20)
        self.assertEqual(struct.unpack_from("<4sI", data), (b"GGUF", 3))
        known = tokenizer().metadata(TEMPLATE.read_text(encoding="utf-8"))
        for key, value in {**known, **ABOUT}.items():
            # Not `assertIn`, which would print the file.
            self.assertTrue(gguf.keys({key: value}) in data, f"{key} is not {value!r:.100}: train a model anew, or export it again")


if __name__ == "__main__":
    unittest.main()
