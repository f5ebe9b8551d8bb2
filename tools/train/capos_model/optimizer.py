"""Optimizers: Muon for the matrices of layers, AdamW for what is left.

Muon (Jordan et al., 2024) takes of each matrix's momentum the nearest matrix whose directions are all as strong.
"""

import torch

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_STEPS = 5
# 16 bits are enough for directions. A processor that has no products of such numbers takes thirty times as long for them.
_PRECISION = torch.bfloat16 if torch.cpu._is_avx512_bf16_supported() else torch.float32


def orthogonal(matrices):
    """The nearest matrices with orthogonal rows or columns, nearly: a stack of matrices, by Newton and Schulz."""
    tall = matrices.shape[-2] > matrices.shape[-1]
    found = matrices.transpose(-2, -1) if tall else matrices
    found = (found / (found.flatten(-2).norm(dim=-1).view(-1, 1, 1) + 1e-7)).to(_PRECISION)
    first, second, third = _COEFFICIENTS
    for _ in range(_STEPS):
        square = found @ found.transpose(-2, -1)
        found = first * found + (second * square + third * square @ square) @ found
    found = found.to(matrices.dtype)
    return found.transpose(-2, -1) if tall else found


class Optimizer:
    """Both optimizers over the parameters of a network."""

    def __init__(self, network, muon_rate=0.02, adam_rate=0.003, momentum=0.95):
        parameters = list(network.parameters())
        self.muon_rate, self.momentum = muon_rate, momentum
        # A published network was made by AdamW: what it has learnt is in few directions, which Muon would not spare.
        muon = network.shape.normed
        inside = {id(parameter) for parameter in network.layers.parameters() if parameter.ndim == 2 and muon}
        # Matrices of one shape are taken together.
        shapes = {}
        for parameter in parameters:
            if id(parameter) in inside:
                shapes.setdefault(tuple(parameter.shape), []).append(parameter)
        self.stacks = list(shapes.values())
        self.moments = [torch.zeros(len(stack), *stack[0].shape) for stack in self.stacks]
        rest = [parameter for parameter in parameters if id(parameter) not in inside]
        self.adam_rate = adam_rate
        self.adam = torch.optim.AdamW(rest, lr=adam_rate, betas=(0.9, 0.95), weight_decay=0.0)

    @torch.no_grad()
    def step(self, share):
        """One step, at this share of the full rates."""
        for stack, moment in zip(self.stacks, self.moments):
            gradients = torch.stack([parameter.grad for parameter in stack])
            moment.lerp_(gradients, 1 - self.momentum)
            ahead = gradients.lerp(moment, self.momentum)
            rows, columns = moment.shape[-2:]
            rate = share * self.muon_rate * max(1.0, rows / columns) ** 0.5
            for parameter, change in zip(stack, orthogonal(ahead)):
                parameter.sub_(change, alpha=rate)
        for group in self.adam.param_groups:
            group["lr"] = share * self.adam_rate
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        for stack in self.stacks:
            for parameter in stack:
                parameter.grad = None

    def state(self):
        return {"moments": self.moments, "adam": self.adam.state_dict()}

    def restore(self, state):
        for moment, saved in zip(self.moments, state["moments"]):
            moment.copy_(saved)
        self.adam.load_state_dict(state["adam"])
