"""Training: steps over rows of conversations, from a seed, with checkpoints from which it continues."""

import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from torch import distributed, multiprocessing

from . import growth, rows
from .model import Network, Shape
from .optimizer import Optimizer

CHECKPOINT = "checkpoint.pt"
# The kinds of rows: drills alone; few tools, most of them invented; more tools; all tools; the same, with more of
# capOS's own; the same in rows of twice the length, because the lines of all own tools fill much of a row.
KINDS = {
    "drills": rows.Kind(256, drills=100),
    "few": rows.Kind(256, tools=3, generic=50, drills=20),
    "some": rows.Kind(512, tools=7, generic=35, drills=10),
    "all": rows.Kind(generic=20, drills=5),
    "own": rows.Kind(generic=10, drills=3),
    "long": rows.Kind(2 * rows.LENGTH, generic=8, drills=2),
}
# Tokens per step: their activations stay in the processor's cache.
AT_ONCE = 2048


@dataclass(frozen=True)
class Plan:
    """The plan of a training. The same plan gives the same weights with the same library on the same processor."""

    # Shares of the full rates, each from its step on, with linear steps between them; the first is at the start of
    # training, the last at its end.
    rates: tuple
    seed: int = 1
    # Tokens of a step.
    tokens: int = 4 * rows.LENGTH
    # The kinds of rows, each from its step on.
    kinds: tuple = ((0, "drills"), (600, "few"), (1000, "some"), (2500, "all"))
    # The number type of the network's computations; weights and their changes have 32 bits with either.
    precision: str = "float32"
    # Before which steps the network is made wider: step, width, inner units.
    growth: tuple = ()

    @classmethod
    def even(cls, steps, **more):
        """Full rates after some steps, and for the second half of the training less and less."""
        rise = min(30, steps // 2)
        return cls(((0, 1 / rise), (rise - 1, 1.0), (steps // 2, 1.0), (steps, 0.0)), **more)

    @property
    def first(self):
        return self.rates[0][0]

    @property
    def steps(self):
        return self.rates[-1][0]

    def kind(self, step):
        """The kinds of rows in a step."""
        for first, name in reversed(self.kinds):
            if first <= step:
                return KINDS[name]
        raise ValueError(f"the training has kinds of rows from step {self.kinds[0][0]} on, and this is step {step}")

    def size(self, step):
        """Width and inner units that the network has been made to have by this step, if it has been."""
        return next((size for first, *size in reversed(self.growth) if first <= step), None)

    def rate(self, step):
        """The share of the full rates at this step."""
        for (start, first), (end, last) in zip(self.rates, self.rates[1:]):
            if start <= step < end:
                return first + (last - first) * (step - start) / (end - start)
        raise ValueError(f"the training has rates for the steps from {self.first} to {self.steps}, and this is step {step}")

    def continues(self, other, step):
        """Whether it proceeds as another plan did up to a step: the plan for later steps may be changed."""
        same = replace(self, rates=(), kinds=(), growth=()) == replace(other, rates=(), kinds=(), growth=())
        same = same and self.first == other.first
        return same and all(
            abs(self.rate(done) - other.rate(done)) < 1e-6
            and (self.kind(done), self.size(done)) == (other.kind(done), other.size(done))
            for done in range(self.first, step)
        )

    @classmethod
    def from_json(cls, value):
        """The plan of a checkpoint."""
        return cls(**value | {name: tuple(map(tuple, value.get(name, ()))) for name in ("rates", "kinds", "growth")})


# The whole training, from nothing, in one go: less than two hours on two cores that have AVX2 and nothing newer.
WHOLE = Plan(
    rates=((0, 0.033), (29, 1.0), (3400, 1.0), (3401, 0.3), (3440, 1.0), (3750, 1.0), (4900, 0.0)),
    kinds=((0, "drills"), (550, "few"), (800, "some"), (1800, "all"), (3750, "own")),
    growth=((3400, 384, 1024),),
)


class Source:
    """Rows of steps, made ahead by a process of its own."""

    def __init__(self, tokenizer, plan, first):
        self.plan, self.next = plan, first
        self.pool = ProcessPoolExecutor(1, initializer=_start, initargs=(tokenizer, plan))
        self.waiting = []

    def take(self):
        while len(self.waiting) < 4:
            self.waiting.append(self.pool.submit(_make, self.next))
            self.next += 1
        return self.waiting.pop(0).result()

    def close(self):
        self.pool.shutdown(cancel_futures=True)


_maker = None


def _start(tokenizer, plan):
    global _maker
    os.nice(5)
    _maker = (rows.Encoder(tokenizer), plan)


def _make(step):
    encoder, plan = _maker
    kind = plan.kind(step)
    return rows.rows(encoder, plan.seed, step, plan.tokens // kind.length, kind)


def tensors(found, length):
    """Rows as the network takes them: tokens, positions, branches, targets, weights."""
    whole = [torch.frombuffer(part, dtype=torch.int64).view(-1, length) for part in (found.tokens, found.positions)]
    whole += [torch.frombuffer(part, dtype=torch.int64).view(-1, length) for part in (found.branches, found.targets)]
    return [*whole, torch.frombuffer(found.weights, dtype=torch.float32).view(-1, length)]


def save(path, network, optimizer, plan, step):
    """Writes a checkpoint, whole or not at all. Without a plan, any continues from it."""
    state = {
        "shape": network.shape.to_json(),
        "plan": plan and asdict(plan),
        "step": step,
        "network": network.state_dict(),
        "optimizer": optimizer.state(),
    }
    new = path.with_suffix(".new")
    torch.save(state, new)
    new.replace(path)


def load(path, precision="float32"):
    """The network of a checkpoint, and what else is in it."""
    state = torch.load(path, weights_only=True)
    network = Network(Shape(**state["shape"]), getattr(torch, precision))
    network.load_state_dict(state["network"])
    return network, state


def _grown(network, optimizer, plan, step, compiled):
    """The network as wide as the plan has it at a step, with an optimizer of its own; both unchanged if they have
    that size."""
    shape = network.shape
    width, inner = map(max, plan.size(step) or (0, 0), (shape.width, shape.inner))
    if (width, inner) == (shape.width, shape.inner):
        return network, optimizer
    network = growth.grown(network, width, inner, plan.seed)
    if compiled:
        network.compile_parts()
    return network, Optimizer(network)


class Alone:
    """The whole training in this process."""

    number, count = 0, 1

    def add(self, parameters):
        """The processes' gradients, added up in all of them."""


class Processes(Alone):
    """One of the processes that train together: each reads its share of a step's rows, and all have the same weights.
    Two processes with a thread each are half as fast again as one with two threads."""

    def __init__(self, number, count, folder):
        distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=number, world_size=count)
        self.number, self.count = number, count

    def add(self, parameters):
        found = [parameter for parameter in parameters if parameter.grad is not None]
        whole = torch.cat([parameter.grad.flatten() for parameter in found])
        distributed.all_reduce(whole)
        for parameter, part in zip(found, whole.split([parameter.numel() for parameter in found])):
            parameter.grad.copy_(part.view_as(parameter))


def train_together(count, *arguments):
    """`train` by several processes, with the arguments of `train` in their order."""
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(_member, (count, folder, arguments), nprocs=count)


def _member(number, count, folder, arguments):
    train(*arguments, together=Processes(number, count, folder))


def train(tokenizer, plan, folder, shape=None, every=50, stop=None, threads=1, compiled=True, together=Alone()):
    """Trains into a folder, from its checkpoint if it has one. `stop` is a step at which to end before the plan
    does."""
    torch.set_num_threads(threads)
    # Most weights of attention become nearly zero. Processors take many times as long for numbers that small.
    torch.set_flush_denormal(True)
    torch.manual_seed(plan.seed)
    path = Path(folder) / CHECKPOINT
    if path.exists():
        network, state = load(path, plan.precision)
        if state["plan"] is not None and not plan.continues(Plan.from_json(state["plan"]), state["step"]):
            raise ValueError(f"{path} is of another training, {state['plan']}; give its options, or another folder")
        optimizer, first = Optimizer(network), state["step"]
        optimizer.restore(state["optimizer"])
    else:
        network = Network(shape or Shape(len(tokenizer)), getattr(torch, plan.precision))
        optimizer, first = Optimizer(network), 0
    if first != plan.steps:
        # Refuses a plan that has nothing for the next step, before there is work.
        plan.rate(first)
        plan.kind(first)
    if compiled:
        network.compile_parts()
    source = Source(tokenizer, plan, first)
    began, tokens, cost, shown = time.monotonic(), 0, 0.0, 0
    last = min(plan.steps, stop or plan.steps)
    try:
        for step in range(first, last):
            network, optimizer = _grown(network, optimizer, plan, step, compiled)
            length = plan.kind(step).length
            batch = tensors(source.take(), length)
            weight = batch[-1].sum()
            parts = list(zip(*(each.split(max(1, AT_ONCE // length)) for each in batch)))
            for part in parts[together.number :: together.count]:
                found = network.loss(*part) / weight
                found.backward()
                cost += found.item()
            together.add(network.parameters())
            optimizer.step(plan.rate(step))
            shown += 1
            tokens += batch[0].numel()
            if together.number > 0:
                continue
            if (step + 1) % 10 == 0 or step + 1 == last:
                speed = tokens / (time.monotonic() - began)
                print(f"step {step + 1} of {plan.steps}: loss {cost * together.count / shown:.4f}, {speed:.0f} tokens/s", flush=True)
                cost, shown = 0.0, 0
            if (step + 1) % every == 0 or step + 1 == last:
                save(path, network, optimizer, plan, step + 1)
    finally:
        source.close()
    return network
