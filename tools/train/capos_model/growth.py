"""Growth: a trained network made wider, which says the same as before and has room to learn more.

New parts of a token's values begin as zero and are read by new random columns; new inner units are random, and count
for nothing yet. So nothing changes until training does it (Net2Net: Chen et al., 2016).
"""

import math
from dataclasses import replace

import torch

from .model import Network


def grown(network, width, inner, seed):
    """The network with values of this width and this many inner units, neither less than it has."""
    old = network.shape
    if width < old.width or inner < old.inner:
        raise ValueError(f"the network has a width of {old.width} and {old.inner} inner units: it can grow, not shrink")
    torch.manual_seed(seed)
    found = Network(replace(old, width=width, inner=inner), network.precision)
    # The mean of a token's squares is taken over more of them.
    share = math.sqrt(old.width / width)
    before = network.state_dict()
    with torch.no_grad():
        for name, parameter in found.named_parameters():
            values, kind = before[name], name.rsplit(".", 1)[-1]
            if kind in ("norm", "attention_norm", "inner_norm"):
                values = values * share
            if kind in ("embedding", "down"):
                parameter.zero_()
            parameter[tuple(slice(size) for size in values.shape)] = values
    return found
