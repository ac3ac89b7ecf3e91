"""Reads the folders of torch-spyre's backend compiler (``spyrecode.json``): what a launch of their machine code would do.

The steps can be listed and are checked; the code itself is that of a private compiler for the card, and nothing here runs
it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

FILE = "spyrecode.json"
# The last of the eight segments of 16 GiB has the programs.
_PROGRAM_SEGMENT = 7 * 0x4_0000_0000
_ON_HOST = ("ohandle", "size", "ishape", "ihandle", "hcm")


def read_steps(folder: str) -> tuple[list[tuple[str, str]], int]:
    """The steps of a launch, each with its kind and its name, and the bytes that its code takes on the card."""
    path = os.path.join(folder, FILE)
    try:
        with open(path, encoding="utf-8") as file:
            plan = json.load(file)
    except ValueError as error:
        raise RuntimeError(f"{path} is no JSON: {error}") from None
    allocated = 0
    for command, properties in _commands(plan, "JobPreparationPlan", path):
        if command == "Allocate":
            allocated += _unsigned(command, properties, "size")
    steps, buffers = [], set()
    for command, properties in _commands(plan, "JobExecPlan", path):
        steps.append((_kind(command, properties, buffers), f"{command} {len(steps)}"))
    return steps, allocated


def _commands(plan, name, path) -> Iterator[tuple[str, dict]]:
    entries = plan.get(name) if isinstance(plan, dict) else None
    if not isinstance(entries, list):
        raise RuntimeError(f"{path} has no list {name}")
    for entry in entries:
        properties = entry.get("properties") if isinstance(entry, dict) else None
        if not isinstance(properties, dict) or not isinstance(entry.get("command"), str):
            raise RuntimeError(f"{name} of {path} has an entry without `command` and `properties`: {str(entry)[:80]}")
        yield entry["command"], properties


def _kind(command, properties, buffers) -> str:
    if command == "ComputeOnDevice":
        _unsigned(command, properties, "job_bin_ptr")
        return "Compute"
    if command == "DataTransfer":
        return _transfer(command, properties)
    if command == "ComputeOnHost":
        _check_host_step(command, properties, buffers)
        return "HostCompute"
    raise RuntimeError(f"the command {command!r}: accepted are ComputeOnDevice, ComputeOnHost and DataTransfer")


def _transfer(command, properties) -> str:
    direction = _property(command, properties, "dirn")
    if direction not in ("true", "false"):
        raise RuntimeError(f"{command} 'dirn' is {direction!r}: accepted are \"true\" (from the card) and \"false\"")
    at = _unsigned(command, properties, "dev_ptr")
    _unsigned(command, properties, "size")
    if direction == "false":
        return "H2D"
    if at < _PROGRAM_SEGMENT and os.environ.get("BUNDLE_SYMBOLIC_ARGS", "1") != "0":
        raise RuntimeError(f"D2H dev_ptr must be in program segment (from {_PROGRAM_SEGMENT} on) where addresses are symbols, not {at}")
    return "D2H"


def _check_host_step(command, properties, buffers) -> None:
    for name in _ON_HOST:
        _property(command, properties, name)
    _unsigned(command, properties, "size")
    shape, source, tables = properties["ishape"], properties["ihandle"], properties["hcm"]
    if not isinstance(shape, list):
        raise RuntimeError(f"{command} 'ishape' must be an array, not {shape!r}")
    if not all(isinstance(n, str) for n in shape):
        raise RuntimeError(f"{command} 'ishape' elements must be strings, not {shape!r}")
    if source and source not in buffers:
        known = ", ".join(sorted(buffers)) or "none"
        raise RuntimeError(f"ihandle {source!r} not found in pinned buffer map: known are {known}")
    if not isinstance(tables, dict) or not isinstance(tables.get("vdci"), dict):
        raise RuntimeError(f"Failed to parse SpyreCode command: {command} 'hcm' is an object with an object as its vdci field")
    buffers.add(properties["ohandle"])


def _property(command, properties, name):
    if name not in properties:
        raise RuntimeError(f"{command} command missing {name!r} property: it has {', '.join(properties) or 'none'}")
    return properties[name]


def _unsigned(command, properties, name) -> int:
    text = str(_property(command, properties, name)).strip()
    if text.startswith("-"):
        raise RuntimeError(f"{command} {name!r} is {text}: negative value not allowed for unsigned integer")
    if not text.isdecimal():
        raise RuntimeError(f"{command} {name!r} is {text!r}: a number in decimal digits is accepted")
    return int(text)
