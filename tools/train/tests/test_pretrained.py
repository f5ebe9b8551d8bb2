"""Beginning with layers of a published network: this needs PyTorch."""

import struct
import unittest

try:
    import torch
except ModuleNotFoundError:
    torch = None

from capos_model import bpe, gguf, render

from .test_network import network_of

if torch:
    from capos_model import export, imports, pretrained
    from capos_model.model import Shape

    SHAPE = Shape(vocabulary=300, width=32, layers=3, inner=64, heads=2, kv_heads=1, head=16, rope_base=100.0, normed=False)

MERGES = ["Ġ r", "Ġ Ġ", "e a", "a d", "Ġr ead", "ea d", "o n", ". t"]


@unittest.skipUnless(torch, "PyTorch is not installed: training and export are not tested")
class Pretrained(unittest.TestCase):
    def published(self):
        """The keys and tensors of a published file, and its network."""
        network = network_of(SHAPE, 3)
        pieces = ["<|endoftext|>", *(bpe.spelled(bytes([byte])) for byte in range(256)), "Ġr", "ead", "Ġread", "on", "Ġtool"]
        about = export.about(SHAPE, {})
        about |= {"tokenizer.ggml.tokens": pieces, "tokenizer.ggml.merges": MERGES, "llama.rope.dimension_count": 16}
        data = gguf.file(about, export.tensors(network))
        return *gguf.read(data), network

    def test_the_tokenizer_has_the_first_merges_of_words_and_no_others(self):
        values, _, _ = self.published()
        found = pretrained.tokenizer(values, len(render.MARKS) + 256 + 6)
        self.assertEqual(found.merges, [(b" ", b"r"), (b"e", b"a"), (b"a", b"d"), (b" r", b"ead"), (b"ea", b"d"), (b"o", b"n")])
        self.assertEqual([found.decode([token]) for token in found.encode("  read on.txt")], [" ", " read", " ", "on", ".", "t", "x", "t"])
        self.assertEqual(bpe.Tokenizer.from_json(found.to_json()).merges, found.merges)

    def test_layers_and_embeddings_are_the_published_ones(self):
        values, tensors, published = self.published()
        tokens = pretrained.tokenizer(values, len(render.MARKS) + 256 + 6)
        found = pretrained.network(values, tensors, tokens, [0, 2])
        self.assertEqual((found.shape.layers, found.shape.vocabulary, found.shape.rope_base), (2, len(tokens), 100.0))
        pieces = values["tokenizer.ggml.tokens"]
        for ours, theirs in ((tokens.numbers[b" read"], pieces.index("Ġread")), (tokens.marks[render.TOOL], pieces.index("Ġtool"))):
            torch.testing.assert_close(found.embedding[ours], published.embedding[theirs], rtol=0.02, atol=0.001)
        # With the same embeddings and layers, the values are the same: queries and keys are in their order again.
        ours = torch.tensor([[tokens.numbers[b" read"], tokens.numbers[b"on"], tokens.numbers[b"."]]])
        theirs = torch.tensor([[pieces.index(piece) for piece in ("Ġread", "on", ".")]])
        place = torch.arange(3).unsqueeze(0), torch.zeros(1, 3, dtype=torch.int64)
        published.layers = torch.nn.ModuleList([published.layers[0], published.layers[2]])
        right = published.values(theirs, *place)
        self.assertLess((found.values(ours, *place) - right).norm() / right.norm(), 0.05)

    def test_a_file_of_such_a_network_becomes_that_network(self):
        network = network_of(SHAPE, 3)
        tokens = bpe.Tokenizer([(b"a", bytes([97 + number])) for number in range(26)] + [(b"b", bytes([97 + number])) for number in range(6)])
        self.assertEqual(len(tokens), SHAPE.vocabulary)
        data = export.file(network, tokens, "template", {"general.license": "Apache-2.0"})
        found = imports.network(data, tokens, "template")
        self.assertEqual(found.shape, SHAPE)
        self.assertEqual(export.file(found, tokens, "template", {"general.license": "Apache-2.0"}), data)

    def test_a_block_of_four_bits_is_read(self):
        packed = bytes(low | (15 - low) << 4 for low in range(16))
        tensor = gguf.Tensor("a", (32,), gguf.Q4_1, struct.pack("<ee", 0.5, -1.0) + packed)
        whole = [*range(16), *range(15, -1, -1)]
        self.assertEqual(imports.numbers(tensor).tolist(), [number * 0.5 - 1 for number in whole])

    def test_what_is_no_such_model_is_rejected(self):
        values, tensors, _ = self.published()
        tokens = pretrained.tokenizer(values, 280)
        for kept in ([], [0, 0], [3], [-1]):
            with self.assertRaisesRegex(ValueError, "keep layers from 0 to 2"):
                pretrained.network(values, tensors, tokens, kept)
        del values["llama.embedding_length"]
        with self.assertRaisesRegex(ValueError, "does not say its llama.embedding_length"):
            pretrained.network(values, tensors, tokens, [0])


if __name__ == "__main__":
    unittest.main()
