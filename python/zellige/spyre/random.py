"""Seeds. Random numbers of the card depend on the seed, the number of draws since it was set, and the
place of an element alone."""

from __future__ import annotations

import struct
import threading

import torch

_lock = threading.Lock()
_states: dict[int, list[int]] = {}
_MASK = (1 << 64) - 1

# Dynamo must not compile these functions when a graph break leads into them.


def _state(index: int) -> list[int]:
    return _states.setdefault(index, [torch.initial_seed() & _MASK, 0])


def draw(index: int) -> int:
    """The seed of the next draw on a card."""
    with _lock:
        state = _state(index)
        state[1] += 1
        x = (state[0] + 0x9E3779B97F4A7C15 * state[1]) & _MASK
    # The finalizer of splitmix64: seeds of consecutive draws are statistically independent.
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    x ^= x >> 31
    return x - (1 << 64) if x >> 63 else x


def _index(device) -> int:
    from .device import index_of

    return index_of(device)


@torch._disable_dynamo
def manual_seed(seed: int, device=None) -> None:
    """Sets the seed of the current card."""
    with _lock:
        _states[_index(device)] = [int(seed) & _MASK, 0]


@torch._disable_dynamo
def manual_seed_all(seed: int) -> None:
    """Sets the seed of all cards; ``torch.manual_seed`` does too."""
    from .device import device_count

    with _lock:
        for index in range(device_count()):
            _states[index] = [int(seed) & _MASK, 0]


@torch._disable_dynamo
def seed() -> None:
    """Sets a random seed for the current card."""
    manual_seed(int(torch.randint(1 << 62, (), generator=_chance()).item()))


@torch._disable_dynamo
def seed_all() -> None:
    """Sets a random seed for all cards."""
    manual_seed_all(int(torch.randint(1 << 62, (), generator=_chance()).item()))


def _chance() -> torch.Generator:
    generator = torch.Generator("cpu")
    generator.seed()
    return generator


@torch._disable_dynamo
def initial_seed() -> int:
    """The seed of the current card."""
    with _lock:
        return _state(_index(None))[0]


@torch._disable_dynamo
def get_rng_state(device="spyre") -> torch.Tensor:
    """The state of a card's random numbers, as bytes."""
    with _lock:
        packed = struct.pack("<QQ", *_state(_index(device)))
    return torch.frombuffer(bytearray(packed), dtype=torch.uint8)


@torch._disable_dynamo
def set_rng_state(new_state: torch.Tensor, device="spyre") -> None:
    """Sets a state that :func:`get_rng_state` gave."""
    data = bytes(new_state.cpu().tolist())
    if len(data) != 16:
        raise ValueError(f"a state of the device has 16 bytes, not {len(data)}")
    with _lock:
        _states[_index(device)] = list(struct.unpack("<QQ", data))


@torch._disable_dynamo
def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all cards."""
    from .device import device_count

    return [get_rng_state(i) for i in range(device_count())]


@torch._disable_dynamo
def set_rng_state_all(states) -> None:
    """Sets the states of all cards."""
    for index, state in enumerate(states):
        set_rng_state(state, index)


class CardGenerator(torch._C.Generator):
    """What ``torch.Generator("spyre")`` makes. PyTorch makes generators of devices in C++; this one holds the state of
    one of the CPU, which draws the numbers that then go to the card."""

    def __new__(cls, device="spyre"):
        made = super().__new__(cls, "cpu")
        made._card = torch.device("spyre", _index(device))
        return made

    @property
    def device(self) -> torch.device:
        """The card."""
        return self._card

    def clone_state(self):
        """Another generator in the same state."""
        made = CardGenerator(self._card)
        made.set_state(self.get_state())
        return made

    def __reduce__(self):
        return _restored, (str(self._card), self.get_state())


def _restored(device, state):
    made = CardGenerator(device)
    made.set_state(state)
    return made


class _GeneratorClass(type(torch._C.Generator)):
    """Makes a generator of the given device; the generators of all devices are instances."""

    def __call__(cls, device="cpu"):
        if not isinstance(device, torch._C.Generator) and torch.device(device).type == "spyre":
            return CardGenerator(device)
        return torch._C.Generator(device)

    def __instancecheck__(cls, value):
        return isinstance(value, torch._C.Generator)

    def __subclasscheck__(cls, kind):
        return issubclass(kind, torch._C.Generator)


def generator_class(original: type) -> type:
    """``torch.Generator`` that takes the device."""
    names = {"__doc__": original.__doc__, "__module__": "torch", "__qualname__": "Generator"}
    return _GeneratorClass("Generator", (original,), names)
