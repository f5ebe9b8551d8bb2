"""The reference that the engine's logits are compared with: plain numpy, 64 bits.

It computes what the architectures are defined to compute, from the dequantised weights of a GGUF file, one token after
another, and nothing of it is fast.
"""

import math

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

HALVES = {"qwen2", "qwen3", "qwen3moe", "phi3", "gemma2", "gemma3", "nomic-bert"}


class Model:
    def __init__(self, path, context=None):
        reader = GGUFReader(path)
        self.fields = {name: field.contents() for name, field in reader.fields.items()}
        self.arch = self.fields["general.architecture"]
        self.tensors = {}
        for tensor in reader.tensors:
            shape = [int(n) for n in reversed(tensor.shape)]
            self.tensors[tensor.name] = np.asarray(
                dequantize(tensor.data, tensor.tensor_type), dtype=np.float64
            ).reshape(shape)
        self.width = self.get("embedding_length")
        self.layers = self.get("block_count")
        self.heads = self.get("attention.head_count")
        self.kv_heads = self.get("attention.head_count_kv", self.heads)
        self.key_size = self.get("attention.key_length", self.width // self.heads)
        self.value_size = self.get("attention.value_length", self.width // self.heads)
        self.epsilon = self.get("attention.layer_norm_rms_epsilon", self.get("attention.layer_norm_epsilon"))
        self.context = context or self.get("context_length")

    def get(self, name, default=None):
        return self.fields.get(f"{self.arch}.{name}", default)

    def norm(self, x, weights):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + self.epsilon) * weights

    def windowed(self, layer):
        window = self.get("attention.sliding_window", 0)
        if not window:
            return None
        period = {"phi3": 0, "gemma2": 2, "gemma3": 6}.get(self.arch)
        if period is None or (period and layer % period == period - 1):
            return None
        return window

    def angles(self, windowed):
        size = self.get("rope.dimension_count", self.key_size)
        base = self.get("rope.freq_base", 10000.0)
        kind = self.get("rope.scaling.type")
        factor = self.get("rope.scaling.factor", 1.0)
        original = self.get("rope.scaling.original_context_length", 0)
        magnitude = self.get("rope.scaling.attn_factor", 1.0)
        if windowed and self.arch == "gemma3":
            base, kind = 10000.0, None
        steps = base ** (-np.arange(0, size, 2) / size)
        if not (windowed and self.arch == "gemma3"):
            long = self.tensors.get("rope_factors_long.weight" if self.context > original else "rope_factors_short.weight")
            factors = long if long is not None else self.tensors.get("rope_freqs.weight")
            if factors is not None:
                steps = steps / factors
        if kind == "linear":
            steps = steps / factor
        if kind == "yarn":
            multiplier = self.get("rope.scaling.yarn_log_multiplier", 0.0)
            magnitude *= (1 + 0.1 * math.log(factor)) / (1 + 0.1 * multiplier * math.log(factor))

            def pair(turns):
                return size * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

            low = max(0.0, math.floor(pair(self.get("rope.scaling.yarn_beta_fast", 32))))
            high = min(size - 1.0, math.ceil(pair(self.get("rope.scaling.yarn_beta_slow", 1))))
            along = np.clip((np.arange(size // 2) - low) / max(0.001, high - low), 0, 1)
            kept = 1 - along
            steps = steps / factor * (1 - kept) + steps * kept
        return steps, magnitude

    def rope(self, x, position, steps, magnitude):
        """Turns the heads in the rows of x."""
        x = x.copy()
        pairs = len(steps)
        cos, sin = np.cos(position * steps) * magnitude, np.sin(position * steps) * magnitude
        if self.arch in HALVES:
            one, other = slice(0, pairs), slice(pairs, 2 * pairs)
        else:
            one, other = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
        a, b = x[:, one].copy(), x[:, other].copy()
        x[:, one], x[:, other] = a * cos - b * sin, a * sin + b * cos
        return x

    def activation(self, x):
        if self.arch.startswith("gemma"):
            return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        return x / (1 + np.exp(-x))

    def feed_forward(self, layer, x):
        t, at = self.tensors, f"blk.{layer}."
        if f"{at}ffn_gate_inp.weight" in t:
            scores = t[f"{at}ffn_gate_inp.weight"] @ x
            scores = np.exp(scores - scores.max())
            scores /= scores.sum()
            chosen = np.argsort(-scores, kind="stable")[: self.get("expert_used_count")]
            shares = scores[chosen] / scores[chosen].sum()
            out = np.zeros(self.width)
            for expert, share in zip(chosen, shares):
                gate = self.activation(t[f"{at}ffn_gate_exps.weight"][expert] @ x)
                up = t[f"{at}ffn_up_exps.weight"][expert] @ x
                out += share * (t[f"{at}ffn_down_exps.weight"][expert] @ (gate * up))
            return out
        up = t[f"{at}ffn_up.weight"] @ x
        if f"{at}ffn_gate.weight" in t:
            gate = t[f"{at}ffn_gate.weight"] @ x
        else:
            gate, up = np.split(up, 2)
        return t[f"{at}ffn_down.weight"] @ (self.activation(gate) * up)

    def attention(self, layer, x, position, cache):
        t, at = self.tensors, f"blk.{layer}."
        if f"{at}attn_qkv.weight" in t:
            q, k, v = np.split(
                t[f"{at}attn_qkv.weight"] @ x,
                [self.heads * self.key_size, (self.heads + self.kv_heads) * self.key_size],
            )
        else:
            q, k, v = (
                t[f"{at}attn_{n}.weight"] @ x + t.get(f"{at}attn_{n}.bias", 0.0) for n in ("q", "k", "v")
            )
        q, k = q.reshape(self.heads, -1), k.reshape(self.kv_heads, -1)
        if f"{at}attn_q_norm.weight" in t:
            q = self.norm(q, t[f"{at}attn_q_norm.weight"])
            k = self.norm(k, t[f"{at}attn_k_norm.weight"])
        window = self.windowed(layer)
        steps, magnitude = self.angles(window is not None)
        q, k = self.rope(q, position, steps, magnitude), self.rope(k, position, steps, magnitude)
        temperature = self.get("attention.temperature_scale", 0.0)
        if temperature:
            original = self.get("rope.scaling.original_context_length")
            q = q * (1 + temperature * math.log(1 + position // original))
        cache.append((k, v.reshape(self.kv_heads, -1)))
        seen = cache[-window:] if window else cache
        keys, values = np.stack([k for k, _ in seen]), np.stack([v for _, v in seen])
        if self.arch.startswith("gemma") and self.layers in (46, 62):
            scale = 1 / math.sqrt(self.width / self.heads)
        else:
            scale = 1 / math.sqrt(self.key_size)
        cap = self.get("attn_logit_softcapping") if self.arch == "gemma2" else None
        out = []
        for head in range(self.heads):
            group = head * self.kv_heads // self.heads
            scores = keys[:, group] @ q[head] * scale
            if cap:
                scores = cap * np.tanh(scores / cap)
            scores = np.exp(scores - scores.max())
            out.append(scores / scores.sum() @ values[:, group])
        return t[f"{at}attn_output.weight"] @ np.concatenate(out) + t.get(f"{at}attn_output.bias", 0.0)

    @property
    def vocabulary(self):
        return len(self.tensors["token_embd.weight"])

    def caches(self):
        """Keys and values of a sequence, of which there are none yet."""
        return [[] for _ in range(self.layers)]

    def states(self, ids, caches=None):
        """The normed states after the last layer, for ids that follow those in the caches."""
        t = self.tensors
        caches = caches or self.caches()
        rows = []
        for position, id in enumerate(ids, len(caches[0])):
            x = t["token_embd.weight"][id].copy()
            if self.arch.startswith("gemma"):
                x *= math.sqrt(self.width)
            for layer in range(self.layers):
                at = f"blk.{layer}."
                mixed = self.attention(layer, self.norm(x, t[f"{at}attn_norm.weight"]), position, caches[layer])
                if f"{at}post_attention_norm.weight" in t:
                    mixed = self.norm(mixed, t[f"{at}post_attention_norm.weight"])
                x = x + mixed
                fed = self.feed_forward(layer, self.norm(x, t[f"{at}ffn_norm.weight"]))
                if f"{at}post_ffw_norm.weight" in t:
                    fed = self.norm(fed, t[f"{at}post_ffw_norm.weight"])
                x = x + fed
            rows.append(self.norm(x, t["output_norm.weight"]))
        return np.array(rows)

    def logits(self, ids, caches=None):
        """Logits after each of the ids, which follow those in the caches."""
        t = self.tensors
        out = self.states(ids, caches) @ t.get("output.weight", t["token_embd.weight"]).T
        cap = self.get("final_logit_softcapping") if self.arch == "gemma2" else None
        return cap * np.tanh(out / cap) if cap else out

    def greedy(self, ids, count):
        """Ids of the likeliest tokens that follow, and by how much each was ahead of the next one."""
        caches = self.caches()
        found, ahead = [], []
        for _ in range(count):
            last = self.logits(found[-1:] or ids, caches)[-1]
            order = np.argsort(-last, kind="stable")
            ahead.append(float(last[order[0]] - last[order[1]]))
            found.append(int(order[0]))
        return found, ahead
