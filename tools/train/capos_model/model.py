"""The network: the `qwen3` architecture, or `llama`, as training sees it.

In the first, queries and keys are normed before they are rotated: without that the rates that suit the other matrices
make them grow, until each head looks at one token alone, long before it is learnt which. A published network of the
second has learnt without it.
"""

import math
from dataclasses import asdict, dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    """Sizes of a network."""

    vocabulary: int = 1024
    width: int = 256
    layers: int = 4
    inner: int = 512
    heads: int = 4
    kv_heads: int = 2
    head: int = 64
    rope_base: float = 10_000.0
    norm_epsilon: float = 1e-5
    # Whether queries and keys are normed.
    normed: bool = True

    def to_json(self):
        return asdict(self)


# Tokens of a row that attention looks from at a time: those that follow are not looked at, so half the work is left
# out.
_CHUNK = 256


def rotations(positions, shape):
    """Cosines and sines of the angles by which queries and keys at these positions are turned."""
    steps = torch.arange(0, shape.head, 2, dtype=torch.float32) / shape.head
    angles = positions.float().unsqueeze(-1) / shape.rope_base**steps
    return angles.cos(), angles.sin()


def _rotate(heads, cosines, sines):
    """`heads` is [row, token, head, part]."""
    first, second = heads.float().chunk(2, -1)
    cosines, sines = cosines.unsqueeze(2), sines.unsqueeze(2)
    turned = torch.cat((first * cosines - second * sines, second * cosines + first * sines), -1)
    return turned.to(heads.dtype)


def _norm(values, weight, epsilon):
    wide = values.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
    return (wide * scale * weight).to(values.dtype)


class Layer(nn.Module):
    """Attention and the gated network after it."""

    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        width, inner = shape.width, shape.inner
        self.attention_norm = nn.Parameter(torch.ones(width))
        self.query = _matrix(shape.heads * shape.head, width)
        self.key = _matrix(shape.kv_heads * shape.head, width)
        self.value = _matrix(shape.kv_heads * shape.head, width)
        self.output = nn.Parameter(torch.zeros(width, shape.heads * shape.head))
        if shape.normed:
            self.query_norm = nn.Parameter(torch.ones(shape.head))
            self.key_norm = nn.Parameter(torch.ones(shape.head))
        self.inner_norm = nn.Parameter(torch.ones(width))
        self.gate = _matrix(inner, width)
        self.up = _matrix(inner, width)
        self.down = nn.Parameter(torch.zeros(width, inner))

    def forward(self, values, cosines, sines, visible):
        shape = self.shape
        rows, tokens, _ = values.shape
        normed = _norm(values, self.attention_norm, shape.norm_epsilon)
        queries = _apply(normed, self.query).view(rows, tokens, shape.heads, shape.head)
        keys = _apply(normed, self.key).view(rows, tokens, shape.kv_heads, shape.head)
        given = _apply(normed, self.value).view(rows, tokens, shape.kv_heads, shape.head)
        if shape.normed:
            queries = _norm(queries, self.query_norm, shape.norm_epsilon)
            keys = _norm(keys, self.key_norm, shape.norm_epsilon)
        queries = _rotate(queries, cosines, sines).transpose(1, 2)
        keys = _rotate(keys, cosines, sines).transpose(1, 2)
        looked = self._attend(queries, keys, given.transpose(1, 2), visible)
        values = values + _apply(looked, self.output)
        normed = _norm(values, self.inner_norm, shape.norm_epsilon)
        inner = functional.silu(_apply(normed, self.gate)) * _apply(normed, self.up)
        return values + _apply(inner, self.down)

    def _attend(self, queries, keys, given, visible):
        """The tokens' attention to those that they see: all arguments are [row, head, token, part]."""
        rows, heads, tokens, part = queries.shape
        shared = heads // keys.shape[1]
        looked = []
        for start in range(0, tokens, _CHUNK):
            end = min(start + _CHUNK, tokens)
            # Heads that share their keys are more rows of one product.
            chunk = queries[:, :, start:end].reshape(rows * heads // shared, shared * (end - start), part)
            seen = visible[:, start:end, :end]
            found = Attention.apply(chunk, keys[:, :, :end].flatten(0, 1), given[:, :, :end].flatten(0, 1), seen, shared)
            looked.append(found.view(rows, heads, end - start, part))
        return torch.cat(looked, 2).transpose(1, 2).flatten(2)


class Attention(torch.autograd.Function):
    """The queries' share of values: [head, token, part]. It keeps the weights alone."""

    @staticmethod
    def forward(context, queries, keys, given, seen, shared):
        scores = queries @ keys.transpose(1, 2)
        weights = _weights(scores, seen, shared, queries.shape[-1] ** -0.5)
        context.save_for_backward(queries, keys, given, weights)
        return weights @ given

    @staticmethod
    def backward(context, change):
        queries, keys, given, weights = context.saved_tensors
        of_given = weights.transpose(1, 2) @ change
        of_scores = _scores(weights, change @ given.transpose(1, 2), queries.shape[-1] ** -0.5)
        return of_scores @ keys, of_scores.transpose(1, 2) @ queries, of_given, None, None


def _weights(scores, seen, shared, scale):
    """The weights that scores [head, token, key] mean, where `seen` says which keys a row's tokens see."""
    heads, tokens, keys = scores.shape
    rows = seen.shape[0]
    wide = scores.view(rows, heads // rows * shared, tokens // shared, keys).float() * scale
    found = wide.masked_fill(~seen.unsqueeze(1), -1e30).softmax(-1)
    return found.to(scores.dtype).view(heads, tokens, keys)


def _scores(weights, changes, scale):
    """The scores' change with the weights."""
    wide, changes = weights.float(), changes.float()
    found = wide * (changes - (wide * changes).sum(-1, keepdim=True)) * scale
    return found.to(weights.dtype)


def _matrix(outputs, inputs):
    return nn.Parameter(torch.randn(outputs, inputs) / math.sqrt(inputs))


def _apply(values, matrix):
    return values @ matrix.to(values.dtype).t()


class Network(nn.Module):
    """Tokens to the scores of the next one."""

    def __init__(self, shape=Shape(), precision=torch.float32):
        super().__init__()
        self.shape, self.precision = shape, precision
        self.embedding = nn.Parameter(torch.randn(shape.vocabulary, shape.width) * 0.02)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.Parameter(torch.ones(shape.width))

    def forward(self, tokens, positions, branches):
        """`branches` says which tokens see each other: those of branch 0 are seen by all, others by their own."""
        return self.scores(self.values(tokens, positions, branches))

    def values(self, tokens, positions, branches):
        """The last layer's result for each token."""
        cosines, sines = rotations(positions, self.shape)
        visible = seen(branches)
        values = functional.embedding(tokens, self.embedding).to(self.precision)
        for layer in self.layers:
            values = layer(values, cosines, sines, visible)
        return values

    def scores(self, values):
        """The scores of each next token."""
        values = _norm(values, self.norm, self.shape.norm_epsilon)
        return _apply(values, self.embedding).float()

    def loss(self, tokens, positions, branches, targets, weights):
        """The loss of the targets, by their weights."""
        return self.costs(self.values(tokens, positions, branches), targets, weights)

    def costs(self, values, targets, weights):
        # Most tokens are not learnt.
        learnt = weights.flatten().nonzero().squeeze(1)
        scores = self.scores(values.flatten(0, 1)[learnt])
        costs = functional.cross_entropy(scores, targets.flatten()[learnt], reduction="none")
        return (costs * weights.flatten()[learnt]).sum()

    def compile_parts(self):
        """Compiles the parts by themselves: one layer serves for all of them."""
        for layer in self.layers:
            layer.compile(dynamic=False)


def seen(branches):
    """For rows of branch numbers, which token sees which: one before it that is of its branch or of branch 0."""
    tokens = branches.shape[1]
    order = torch.arange(tokens, device=branches.device)
    before = order.unsqueeze(0) <= order.unsqueeze(1)
    keys = branches.unsqueeze(1)
    return before & ((keys == 0) | (keys == branches.unsqueeze(2)))
