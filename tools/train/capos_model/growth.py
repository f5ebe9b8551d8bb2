"""Growth: a trained network made wider or deeper, which says the same as before and has room to learn more.

New parts of a token's values begin as zero and are read by new random columns; new inner units are random, and count
for nothing yet; new layers add nothing yet. So nothing changes until training does it (Net2Net: Chen et al., 2016).
"""

import math
from dataclasses import replace

import torch

from .model import Network


def grown(network, width, inner, seed, layers=None):
    """The network with values of this width, this many inner units and this many layers, none less than it has."""
    old = network.shape
    layers = layers or old.layers
    if width < old.width or inner < old.inner or layers < old.layers:
        raise ValueError(
            f"the network has a width of {old.width}, {old.inner} inner units and {old.layers} layers: it can grow, not shrink"
        )
    torch.manual_seed(seed)
    found = Network(replace(old, width=width, inner=inner, layers=layers), network.precision)
    # The mean of a token's squares is taken over more of them.
    share = math.sqrt(old.width / width)
    before = network.state_dict()
    places = _places(old.layers, layers)
    with torch.no_grad():
        for name, parameter in found.named_parameters():
            source, kind = _source(name, places), name.rsplit(".", 1)[-1]
            if source is None:
                # A new layer adds zeros: that is how layers begin.
                continue
            values = before[source]
            if kind in ("norm", "attention_norm", "inner_norm"):
                values = values * share
            if kind in ("embedding", "down"):
                parameter.zero_()
            parameter[tuple(slice(size) for size in values.shape)] = values
    return found


def _places(old, new):
    """For each layer which old one it is, or none. The first and the last stay there; new ones come between them, evenly."""
    added = new - old
    after = [sum(round((number + 1) * (old - 1) / (added + 1)) == place for number in range(added)) for place in range(old)]
    return [source for place in range(old) for source in [place, *[None] * after[place]]]


def _source(name, places):
    """The old name of a parameter; none for those of new layers."""
    if not name.startswith("layers."):
        return name
    _, number, rest = name.split(".", 2)
    place = places[int(number)]
    return None if place is None else f"layers.{place}.{rest}"
