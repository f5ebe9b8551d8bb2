"""From a checkpoint to a model file: matrices in Q8_0, the rest in 32 bits."""

import torch

from . import gguf

# Numbers of a block that share a scale.
_BLOCK = 32
# Kinds of a file: most of it in Q8_0.
_MOSTLY_Q8_0 = 7
# The longest conversation that a worker is to offer. Training goes to 1,024 tokens, and farther with gaps between.
CONTEXT = 2048


def quantized(matrix):
    """The bytes of a matrix in Q8_0: blocks of a 16-bit scale and 32 whole numbers."""
    blocks = matrix.detach().float().reshape(-1, _BLOCK)
    scales = blocks.abs().amax(1, keepdim=True) / 127
    whole = torch.where(scales > 0, blocks / scales, 0.0).round().to(torch.int8)
    both = torch.cat((scales.half().view(torch.uint8).reshape(-1, 2), whole.view(torch.uint8)), 1)
    return bytes(both.flatten().tolist())


def parts(network):
    """The parameters of a network, by the names that model files give them."""
    found = {"token_embd.weight": network.embedding}
    for number, layer in enumerate(network.layers):
        block = f"blk.{number}."
        found |= {
            block + "attn_norm.weight": layer.attention_norm,
            block + "attn_q.weight": layer.query,
            block + "attn_k.weight": layer.key,
            block + "attn_v.weight": layer.value,
            block + "attn_output.weight": layer.output,
            block + "ffn_norm.weight": layer.inner_norm,
            block + "ffn_gate.weight": layer.gate,
            block + "ffn_up.weight": layer.up,
            block + "ffn_down.weight": layer.down,
        }
        if network.shape.normed:
            found |= {block + "attn_q_norm.weight": layer.query_norm, block + "attn_k_norm.weight": layer.key_norm}
    return found | {"output_norm.weight": network.norm}


def form(values):
    """The sizes and the type of a parameter's tensor."""
    return tuple(reversed(values.shape)), gguf.Q8_0 if values.ndim == 2 else gguf.F32


def turned(shape, name, matrix):
    """A matrix of a network as its file has it: in `llama` the parts of a head that are turned together lie side by
    side, in `qwen3` half a head apart."""
    if shape.normed or not name.endswith(("attn_q.weight", "attn_k.weight")):
        return matrix
    return matrix.view(-1, 2, shape.head // 2, matrix.shape[1]).transpose(1, 2).reshape(matrix.shape)


def unturned(shape, name, matrix):
    """The reverse of `turned`."""
    if shape.normed or not name.endswith(("attn_q.weight", "attn_k.weight")):
        return matrix
    return matrix.view(-1, shape.head // 2, 2, matrix.shape[1]).transpose(1, 2).reshape(matrix.shape)


def _data(values):
    if values.ndim == 2:
        return quantized(values)
    return bytes(values.detach().float().contiguous().view(torch.uint8).tolist())


def tensors(network):
    """The tensors of a network."""
    shape = network.shape
    return [
        gguf.Tensor(name, *form(values), _data(turned(shape, name, values))) for name, values in parts(network).items()
    ]


def about(shape, said):
    """The file's entries about the network, and what else is `said` of it: a name, a licence, a description, the network
    that it began with, the words of some tools."""
    kind = "qwen3" if shape.normed else "llama"
    sizes = {
        "vocab_size": shape.vocabulary,
        "context_length": CONTEXT,
        "embedding_length": shape.width,
        "block_count": shape.layers,
        "feed_forward_length": shape.inner,
        "attention.head_count": shape.heads,
        "attention.head_count_kv": shape.kv_heads,
        "attention.layer_norm_rms_epsilon": shape.norm_epsilon,
        "attention.key_length": shape.head,
        "attention.value_length": shape.head,
        "rope.freq_base": shape.rope_base,
    }
    return {
        "general.architecture": kind,
        "general.file_type": _MOSTLY_Q8_0,
    } | said | {f"{kind}.{key}": value for key, value in sizes.items()}


def file(network, tokenizer, template, said):
    """The bytes of the model file."""
    return gguf.file(about(network.shape, said) | tokenizer.metadata(template), tensors(network))
