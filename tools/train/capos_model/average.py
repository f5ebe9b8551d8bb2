"""Averages: one network with the mean weights of several that one training made.

Networks from the ends of a training, each after its rates had fallen, differ in what they happen to get wrong. Their mean is
often better than each of them (model soups: Wortsman et al., 2022).
"""

import torch

from .model import Network


def averaged(networks):
    """The network whose weights are the means of these, which have one shape."""
    first = networks[0]
    if any(network.shape != first.shape for network in networks):
        raise ValueError("the networks have different shapes: take those of one training")
    found = Network(first.shape, first.precision)
    states = [network.state_dict() for network in networks]
    means = {name: torch.stack([state[name].double() for state in states]).mean(0) for name in states[0]}
    found.load_state_dict(means)
    return found
