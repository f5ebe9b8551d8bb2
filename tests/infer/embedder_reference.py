"""The reference that the engine's vectors of texts are compared with: plain numpy, 64 bits.

It computes what the architectures are defined to compute, all tokens of a text at a time, and nothing of it is fast.
"""

import numpy as np
from reference import Model

MEAN, FIRST, LAST = 1, 2, 3


class Embedder(Model):
    """A model whose tokens see all others, or a language model whose states are taken."""

    def layer_norm(self, x, name):
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.epsilon)
        return x * self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]

    def linear(self, x, name):
        return x @ self.tensors[f"{name}.weight"].T + self.tensors.get(f"{name}.bias", 0.0)

    def mixed(self, layer, x):
        """The attention's addition to the states."""
        at, tokens = f"blk.{layer}.", len(x)
        if f"{at}attn_qkv.weight" in self.tensors:
            q, k, v = np.split(self.linear(x, f"{at}attn_qkv"), 3, axis=-1)
        else:
            q, k, v = (self.linear(x, f"{at}attn_{name}") for name in "qkv")
        q, k, v = (rows.reshape(tokens, self.heads, -1) for rows in (q, k, v))
        if self.arch == "nomic-bert":
            steps, magnitude = self.angles(False)
            q, k = (np.stack([self.rope(row, at, steps, magnitude) for at, row in enumerate(rows)]) for rows in (q, k))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(self.key_size)
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        mixed = np.einsum("hqk,khd->qhd", scores, v).reshape(tokens, -1)
        return self.linear(mixed, f"{at}attn_output")

    def fed(self, layer, x):
        """The feed-forward part's addition to the states."""
        at = f"blk.{layer}."
        up = self.linear(x, f"{at}ffn_up")
        if f"{at}ffn_gate.weight" in self.tensors:
            gate = self.linear(x, f"{at}ffn_gate")
            up = gate / (1 + np.exp(-gate)) * up
        else:
            up = 0.5 * up * (1 + np.tanh(np.sqrt(2 / np.pi) * (up + 0.044715 * up**3)))
        return self.linear(up, f"{at}ffn_down")

    def encoded(self, ids):
        """The states of all tokens after the last layer."""
        t = self.tensors
        x = t["token_embd.weight"][ids]
        if "token_types.weight" in t:
            x = x + t["token_types.weight"][0]
        if "position_embd.weight" in t:
            x = x + t["position_embd.weight"][: len(ids)]
        x = self.layer_norm(x, "token_embd_norm")
        for layer in range(self.layers):
            x = self.layer_norm(x + self.mixed(layer, x), f"blk.{layer}.attn_output_norm")
            x = self.layer_norm(x + self.fed(layer, x), f"blk.{layer}.layer_output_norm")
        return x

    def vector(self, ids):
        """The vector of a text with these tokens: of length one, and pooled as the file says."""
        rows = self.encoded(ids) if self.arch.endswith("bert") else self.states(ids)
        pooling = self.get("pooling_type", MEAN)
        pooled = {FIRST: rows[0], LAST: rows[-1]}.get(pooling, rows.mean(axis=0))
        return pooled / np.linalg.norm(pooled)
