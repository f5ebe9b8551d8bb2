"""The network, its training and its export: these need PyTorch."""

import math
import struct
import tempfile
import unittest
from pathlib import Path

try:
    import torch
except ModuleNotFoundError:
    torch = None

from capos_model import rows

from .test_tokenizer import tokenizer

if torch:
    from capos_model import average, export, gguf, growth, imports, judge, train
    from capos_model.model import Network, Shape, seen
    from capos_model.optimizer import Optimizer, orthogonal

    SAID = {"general.name": "a", "general.license": "b", "capos.asked_with": gguf.asked_with({"delete_file": ["rm"]})}
    # Rows of every kind, two steps of each.
    STEPS = ((0, "drills"), (2, "few"), (4, "all"))
    SMALL = Shape(vocabulary=len(tokenizer()), width=32, layers=2, inner=64, heads=2, kv_heads=1, head=16)


def network_of(shape, seed):
    """A network whose layers all have a say."""
    torch.manual_seed(seed)
    network = Network(shape)
    for layer in network.layers:
        torch.nn.init.normal_(layer.output, std=0.2)
        torch.nn.init.normal_(layer.down, std=0.2)
    return network


@unittest.skipUnless(torch, "PyTorch is not installed: training and export are not tested")
class Networks(unittest.TestCase):
    def network(self):
        return network_of(SMALL, 5)

    def test_conversations_of_a_row_do_not_see_each_other(self):
        network = self.network()
        tools, first, second = (torch.randint(12, 1024, (size,)) for size in (9, 7, 8))
        positions = torch.tensor([*range(9), *range(9, 16), *range(9, 17)]).unsqueeze(0)
        branches = torch.tensor([0] * 9 + [1] * 7 + [2] * 8).unsqueeze(0)
        together = network(torch.cat((tools, first, second)).unsqueeze(0), positions, branches)
        alone = network(
            torch.cat((tools, second)).unsqueeze(0), torch.arange(17).unsqueeze(0), torch.zeros(1, 17, dtype=torch.int64)
        )
        torch.testing.assert_close(together[0, 16:], alone[0, 9:])
        torch.testing.assert_close(together[0, :9], alone[0, :9])

    def test_no_token_sees_one_after_it(self):
        found = seen(torch.tensor([[0, 1, 1, 2, -1]]))[0].tolist()
        self.assertEqual(
            found,
            [
                [True, False, False, False, False],
                [True, True, False, False, False],
                [True, True, True, False, False],
                [True, False, False, True, False],
                [True, False, False, False, True],
            ],
        )

    def test_directions_of_a_step_are_as_strong_as_each_other(self):
        for sizes in ((3, 8, 16), (3, 16, 8)):
            torch.manual_seed(6)
            strengths = torch.linalg.svdvals(orthogonal(torch.randn(sizes)))
            self.assertTrue(((strengths > 0.6) & (strengths < 1.3)).all(), strengths)

    def test_a_training_that_stops_goes_on_as_if_it_had_not(self):
        plan = train.Plan.even(6, tokens=1024, kinds=STEPS)
        with tempfile.TemporaryDirectory() as folder:
            whole, parts = Path(folder, "whole"), Path(folder, "parts")
            for path in (whole, parts):
                path.mkdir()
            straight = train.train(tokenizer(), plan, whole, SMALL, compiled=False)
            train.train(tokenizer(), plan, parts, SMALL, stop=3, compiled=False)
            resumed = train.train(tokenizer(), plan, parts, SMALL, compiled=False)
            for name, values in straight.state_dict().items():
                self.assertTrue(torch.equal(values, resumed.state_dict()[name]), name)
            with self.assertRaisesRegex(ValueError, "another training"):
                train.train(tokenizer(), train.Plan.even(6, seed=2, tokens=1024, kinds=STEPS), parts, SMALL, compiled=False)

    def test_a_network_grows_in_the_midst_of_its_training_wherever_that_stopped(self):
        plan = train.Plan.even(6, tokens=1024, kinds=((0, "drills"),), growth=((3, 48, 80),))
        with tempfile.TemporaryDirectory() as folder:
            whole, parts = Path(folder, "whole"), Path(folder, "parts")
            for path in (whole, parts):
                path.mkdir()
            straight = train.train(tokenizer(), plan, whole, SMALL, compiled=False)
            widths = []
            for stop in (2, 3, 4, None):
                resumed = train.train(tokenizer(), plan, parts, SMALL, stop=stop, compiled=False)
                widths.append((resumed.shape.width, resumed.shape.inner))
            self.assertEqual(widths, [(32, 64), (32, 64), (48, 80), (48, 80)])
            for name, values in straight.state_dict().items():
                self.assertTrue(torch.equal(values, resumed.state_dict()[name]), name)

    def test_the_whole_training_is_a_plan_without_gaps(self):
        plan = train.WHOLE
        for step in range(plan.steps):
            self.assertTrue(0 < plan.rate(step) <= 1)
            plan.kind(step)
        grown = plan.growth[0][0]
        self.assertEqual((plan.size(grown - 1), plan.size(grown)), (None, [384, 1024]))

    def test_a_plan_may_be_changed_for_the_steps_to_come(self):
        plan, longer = train.Plan.even(1000), train.Plan.even(2000)
        self.assertTrue(longer.continues(plan, 500))
        self.assertFalse(longer.continues(plan, 600))
        self.assertTrue(train.Plan((*plan.rates[:3], (800, 0.4), (900, 0.0))).continues(plan, 801))
        self.assertFalse(train.Plan.even(1000, seed=2).continues(plan, 500))
        sooner = train.Plan.even(1000, kinds=((0, "drills"), (400, "all")))
        self.assertTrue(sooner.continues(plan, 400))
        self.assertFalse(sooner.continues(plan, 401))
        wider = train.Plan.even(1000, growth=((400, 384, 1024),))
        self.assertTrue(wider.continues(plan, 400))
        self.assertFalse(wider.continues(plan, 401))
        self.assertEqual([plan.rate(0), plan.rate(29), plan.rate(500), plan.rate(750)], [1 / 30, 1.0, 1.0, 0.5])

    def test_a_step_lowers_the_loss(self):
        network = self.network()
        optimizer, batch = Optimizer(network), train.tensors(rows.rows(rows.Encoder(tokenizer()), 1, 0, 1), rows.LENGTH)
        costs = []
        for _ in range(4):
            cost = network.loss(*batch) / batch[-1].sum()
            cost.backward()
            optimizer.step(0.3)
            costs.append(cost.item())
        self.assertEqual(costs, sorted(costs, reverse=True))

    def test_a_network_that_has_grown_says_the_same_and_learns_with_all_that_is_new(self):
        network = self.network()
        with torch.no_grad():
            # As large as in trained networks, so that the norms' addition to a mean is negligible.
            network.embedding.mul_(20)
        grown = growth.grown(network, 48, 80, 1, 4)
        self.assertEqual((grown.shape.width, grown.shape.inner, grown.shape.layers), (48, 80, 4))
        batch = train.tensors(rows.rows(rows.Encoder(tokenizer()), 1, 0, 1), rows.LENGTH)
        torch.testing.assert_close(grown(*batch[:3]), network(*batch[:3]), rtol=1e-3, atol=1e-3)
        optimizer = Optimizer(grown)
        for _ in range(2):
            grown.loss(*batch).backward()
            optimizer.step(0.3)
        for layer in grown.layers:
            self.assertTrue((layer.down[32:].any() and layer.down[:, 64:].any() and layer.output[32:].any()).item())
        self.assertTrue(grown.embedding[:, 32:].any().item())
        with self.assertRaisesRegex(ValueError, "not shrink"):
            growth.grown(grown, 32, 80, 1)
        with self.assertRaisesRegex(ValueError, "not shrink"):
            growth.grown(grown, 48, 80, 1, 3)

    def test_the_mean_of_networks_has_the_means_of_their_weights(self):
        one, other = network_of(SMALL, 1), network_of(SMALL, 2)
        mean = average.averaged([one, other])
        for name, values in mean.state_dict().items():
            torch.testing.assert_close(values, (one.state_dict()[name] + other.state_dict()[name]) / 2)
        with self.assertRaisesRegex(ValueError, "different shapes"):
            average.averaged([one, growth.grown(one, 48, 80, 1)])

    def test_turns_are_told_apart_and_judged(self):
        right = [True, True, False, True, True, False]
        self.assertEqual(judge.turns(right, [0, 3, 1, 0, 3, 3]), [[True, False], [False, False]])

    def test_matrices_are_written_in_blocks_of_whole_numbers(self):
        matrix = torch.tensor([[*range(-16, 16)], [0] * 32], dtype=torch.float32)
        data = export.quantized(matrix)
        self.assertEqual(len(data), 2 * 34)
        scale, *numbers = struct.unpack("<e32b", data[:34])
        for number, value in zip(numbers, matrix[0].tolist()):
            self.assertAlmostEqual(number * scale, value, delta=scale / 2 + 0.01)
        self.assertEqual(data[34:], bytes(34))

    def test_scores_of_attention_are_bounded_however_large_the_matrices_are(self):
        network = self.network()
        tokens = torch.randint(12, 1024, (1, 20))
        place = torch.arange(20).unsqueeze(0), torch.zeros(1, 20, dtype=torch.int64)
        before = network(tokens, *place)
        with torch.no_grad():
            for layer in network.layers:
                layer.query.mul_(50)
                layer.key.mul_(50)
        torch.testing.assert_close(network(tokens, *place), before, rtol=1e-3, atol=1e-3)

    def test_a_file_has_every_tensor(self):
        network = self.network()
        found = {tensor.name: tensor for tensor in export.tensors(network)}
        numbers = sum(tensor.sizes[0] * (tensor.sizes[1] if len(tensor.sizes) > 1 else 1) for tensor in found.values())
        self.assertEqual(numbers, sum(values.numel() for values in network.parameters()))
        self.assertEqual(found["blk.1.ffn_down.weight"].sizes, (64, 32))
        self.assertEqual(found["output_norm.weight"].kind, gguf.F32)
        data = export.file(network, tokenizer(), "", SAID)
        self.assertEqual(struct.unpack_from("<4sIQ", data), (b"GGUF", 3, len(found)))
        self.assertEqual(len(data) % 32, 0)

    def test_a_model_file_becomes_the_network_that_it_was_made_of(self):
        network, tokens = self.network(), tokenizer()
        data = export.file(network, tokens, "template", SAID)
        found = imports.network(data, tokens, "another template")
        self.assertEqual(found.shape, network.shape)
        before = export.parts(network)
        for name, values in export.parts(found).items():
            # Half a step of a block's numbers, and the rounding of the scale.
            allowed = before[name].abs().max() * (0.5 / 127 + 2**-11) if values.ndim == 2 else 0.0
            self.assertLessEqual((values - before[name]).abs().max().item(), allowed, name)
        self.assertEqual(export.file(found, tokens, "template", SAID), data)

    def test_a_file_that_is_not_of_the_form_is_no_network(self):
        network, tokens = self.network(), tokenizer()
        about = export.about(network.shape, SAID) | tokens.metadata("")
        tensors = export.tensors(network)
        endless = struct.pack("<f", float("nan")) * network.norm.numel()
        for values, parts, why in (
            (about | {"general.architecture": "gemma3"}, tensors, "general.architecture is gemma3, and not qwen3 or llama"),
            (about | {"general.architecture": "llama"}, tensors, "does not say its llama.vocab_size"),
            (about | {"qwen3.rope.freq_base": 0.0}, tensors, "does not say its qwen3.rope.freq_base"),
            (about | {"qwen3.rope.freq_base": math.nan}, tensors, "does not say its qwen3.rope.freq_base"),
            (about | {"tokenizer.ggml.merges": ["a b"]}, tensors, "tokenizer.ggml.merges is not"),
            (about | {"qwen3.vocab_size": "many"}, tensors, "does not say its qwen3.vocab_size"),
            (about | {"qwen3.block_count": 1 << 20}, tensors, "24 tensors, which are not those of 1048576 layers"),
            (about | {"qwen3.embedding_length": 1 << 20}, tensors, "token_embd.weight is not there in the sizes"),
            (about | {"qwen3.embedding_length": 1 << 31}, tensors, "does not say its qwen3.embedding_length"),
            (about | {"qwen3.feed_forward_length": 0}, tensors, "does not say its qwen3.feed_forward_length"),
            (about | {"qwen3.block_count": True}, tensors, "does not say its qwen3.block_count"),
            (about | {"qwen3.attention.head_count_kv": 3}, tensors, "heads cannot share"),
            (about | {"qwen3.rope.scaling.type": "yarn"}, tensors, "qwen3.rope.scaling.type is no key"),
            (about, [*tensors[:-1], gguf.Tensor("output_norm.weight", *export.form(network.norm), endless)], "no numbers"),
            (about, tensors[1:] + [gguf.Tensor("b", *export.form(network.norm), bytes(128))], "token_embd.weight is not"),
            (about, [*tensors[:-1], gguf.Tensor("output_norm.weight", (32,), gguf.Q8_0, bytes(34))], "output_norm.weight is not"),
        ):
            with self.assertRaisesRegex(ValueError, why):
                imports.network(gguf.file(values, parts), tokens, "")

    def test_processes_together_learn_what_one_learns(self):
        plan = train.Plan(((0, 0.5), (3, 0.0)), tokens=2 * train.AT_ONCE, kinds=((0, "few"),))
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
            alone = train.train(tokenizer(), plan, one, SMALL, compiled=False)
            train.train_together(2, tokenizer(), plan, two, SMALL, 50, None, 1, False)
            together, _ = train.load(Path(two, train.CHECKPOINT))
            for name, values in alone.named_parameters():
                torch.testing.assert_close(together.state_dict()[name], values, rtol=1e-3, atol=1e-4, msg=name)

    def test_a_training_goes_on_from_a_network_without_a_plan_at_its_step(self):
        def plan(*rates):
            return train.Plan(rates, tokens=1024, kinds=((0, "few"),))

        with tempfile.TemporaryDirectory() as folder:
            network = self.network()
            train.save(Path(folder, train.CHECKPOINT), network, Optimizer(network), None, 100)

            def go_on(*rates, stop=None):
                return train.train(tokenizer(), plan(*rates), folder, stop=stop, compiled=False)

            for elsewhere in (((0, 0.1), (90, 0.0)), ((101, 0.1), (110, 0.0))):
                with self.assertRaisesRegex(ValueError, "this is step 100"):
                    go_on(*elsewhere)
            go_on((100, 0.1), (102, 0.5), (110, 0.0), stop=102)
            _, state = train.load(Path(folder, train.CHECKPOINT))
            self.assertEqual((state["step"], state["plan"]["rates"][0]), (102, (100, 0.1)))
            for other in (((100, 0.2), (102, 0.5), (110, 0.0)), ((0, 0.1), (100, 0.1), (102, 0.5), (110, 0.0))):
                with self.assertRaisesRegex(ValueError, "another training"):
                    go_on(*other)
            with self.assertRaisesRegex(ValueError, "kinds of rows from step 200 on, and this is step 102"):
                late = train.Plan(((102, 0.1), (110, 0.0)), tokens=1024, kinds=((200, "few"),))
                late.kind(102)
            after = go_on((100, 0.1), (102, 0.5), (104, 0.0))
            self.assertFalse(torch.equal(after.layers[0].query, network.layers[0].query))
            # In an empty folder the next step is the first.
            with self.assertRaisesRegex(ValueError, "this is step 0"):
                train.train(tokenizer(), plan((100, 0.1), (110, 0.0)), Path(folder, "empty"), compiled=False)


if __name__ == "__main__":
    unittest.main()
