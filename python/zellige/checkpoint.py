"""Folders of ``torch.distributed.checkpoint``, divided anew by the plans of ``zellige reshard``.

    python -m zellige.checkpoint SOURCE TARGET --plan PLAN [--to-dcp] [--program zellige] [--drop-others]

SOURCE is a folder of safetensors files or one that ``torch.distributed.checkpoint.save`` wrote; TARGET gets the files that PLAN
names, or with ``--to-dcp`` such a folder of whole tensors, which every mesh can load. PyTorch's own library reads and writes these
folders; tensors go one at a time to a file that the program then divides, so memory holds about the largest tensor.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

NAMES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32", "int16": "I16",
    "int8": "I8", "uint8": "U8", "bool": "BOOL", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
    "uint16": "U16", "uint32": "U32", "uint64": "U64",
}
ONE = "model.safetensors"
INDEX = "model.safetensors.index.json"
#: The longest header of a file that is read.
LONGEST = 100_000_000


def is_dcp(folder) -> bool:
    """Whether ``torch.distributed.checkpoint`` wrote a folder."""
    return (pathlib.Path(folder) / ".metadata").is_file()


def from_dcp(source, target, *, drop_others: bool = False) -> list[str]:
    """Writes the tensors of a folder of ``torch.distributed.checkpoint`` to ``model.safetensors`` in the folder ``target``, with an index,
    each whole and as it was named. Answers the names of what is no tensor, which is an error unless ``drop_others``.
    """
    import torch
    from torch.distributed.checkpoint import FileSystemReader, load
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    source, target = pathlib.Path(source), pathlib.Path(target)
    if not is_dcp(source):
        raise ValueError(f"{source}: no .metadata in it; accepted is a folder that torch.distributed.checkpoint.save wrote")
    reader = _Reader(FileSystemReader, source)
    entries = reader.read_metadata().state_dict_metadata
    tensors = {n: m for n, m in entries.items() if isinstance(m, TensorStorageMetadata)}
    others = sorted(n for n in entries if n not in tensors)
    if others and not drop_others:
        raise ValueError(f"{source}: `{others[0]}` and {len(others) - 1} others are no tensors; drop_others leaves them out")
    header, at = {}, 0
    for name, entry in tensors.items():
        dtype = entry.properties.dtype
        size = dtype.itemsize
        for extent in entry.size:
            size *= extent
        header[name] = {"dtype": _named(dtype, name), "shape": list(entry.size), "data_offsets": [at, at + size]}
        at += size
    target.mkdir(parents=True, exist_ok=True)
    partial = target / f".{ONE}.partial"
    with open(partial, "wb") as file:
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        file.write(struct.pack("<Q", len(text)) + text)
        for name, entry in tensors.items():
            held = {name: torch.empty(entry.size, dtype=entry.properties.dtype)}
            load(held, storage_reader=reader, no_dist=True)
            file.write(held[name].contiguous().reshape(-1).view(torch.uint8).numpy())
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, target / ONE)
    index = {"metadata": {"total_size": at}, "weight_map": {name: ONE for name in tensors}}
    (target / INDEX).write_text(json.dumps(index))
    return others


def to_dcp(source, target) -> int:
    """Writes the tensors of a safetensors file, or of the files of a folder with an index, as a folder of
    ``torch.distributed.checkpoint``, each whole. Answers how many.
    """
    from torch.distributed.checkpoint import FileSystemWriter, save

    source, target = pathlib.Path(source), pathlib.Path(target)
    if target.exists() and any(target.iterdir()):
        raise ValueError(f"{target}: it holds something already; accepted is an empty folder or none")
    files = [source]
    if source.is_dir():
        index = source / INDEX
        listed = set(json.loads(index.read_text())["weight_map"].values()) if index.exists() else {ONE}
        files = [source / name for name in sorted(listed)]
    state, maps = {}, []
    for path in files:
        for name, tensor in _mapped(path, maps):
            if name in state:
                raise ValueError(f"{path}: `{name}` is in another file too; accepted are files of whole tensors")
            state[name] = tensor
    save(state, storage_writer=FileSystemWriter(target, single_file_per_rank=True, thread_count=1), no_dist=True)
    return len(state)


def reshard(source, target, plan, *, to_dcp: bool = False, program: str = "zellige", drop_others: bool = False, verify: bool = False) -> None:
    """Moves a checkpoint to the sharding of the text ``plan`` (a path). A source of ``torch.distributed.checkpoint`` is one file of whole
    tensors to the plan (``files = "model.safetensors"`` or ``"index"``); with ``to_dcp`` the plan writes ``model.safetensors``.
    """
    source, target = pathlib.Path(source), pathlib.Path(target)
    found = shutil.which(program)
    if found is None:
        raise FileNotFoundError(f"no program `{program}`; accepted is the path of zellige")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside the target, where there is room as the target has.
    with tempfile.TemporaryDirectory(prefix=".zellige-", dir=target.parent) as held:
        if is_dcp(source):
            from_dcp(source, pathlib.Path(held) / "in", drop_others=drop_others)
            source = pathlib.Path(held) / "in"
        out = pathlib.Path(held) / "out" if to_dcp else target
        command = [found, "reshard", source, out, "--plan", plan, *(["--verify"] if verify else [])]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        if to_dcp:
            globals()["to_dcp"](out, target)


def _named(dtype, tensor: str) -> str:
    name = str(dtype).removeprefix("torch.")
    if name not in NAMES:
        raise ValueError(f"`{tensor}`: safetensors has no {name}; accepted are {', '.join(NAMES)}")
    return NAMES[name]


def _Reader(base, path):  # noqa: N802
    """A reader that keeps what it read of the folder: each tensor asks for it anew."""

    class Reader(base):
        def read_metadata(self, *args, **kwargs):
            if not hasattr(self, "_kept"):
                self._kept = super().read_metadata(*args, **kwargs)
            return self._kept

    return Reader(path)


def _mapped(path, maps):
    """Every tensor of a safetensors file, in memory as far as it is used."""
    import torch

    with open(path, "rb") as file:
        length = os.fstat(file.fileno()).st_size
        begin = file.read(8)
        size = struct.unpack("<Q", begin)[0] if len(begin) == 8 else LONGEST + 1
        if size > min(LONGEST, length - 8):
            raise ValueError(f"{path}: no safetensors file, or a truncated one")
        header = json.loads(file.read(size))
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    maps.append(memory)
    back = {short: getattr(torch, name) for name, short in NAMES.items() if hasattr(torch, name)}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] not in back:
            raise ValueError(f"{path}: `{name}` is {entry['dtype']}; accepted are {', '.join(back)}")
        dtype, (first, last) = back[entry["dtype"]], entry["data_offsets"]
        if 8 + size + last > length:
            raise ValueError(f"{path}: truncated in `{name}`: {length} bytes, and it ends at byte {8 + size + last}")
        if last == first:
            yield name, torch.empty(entry["shape"], dtype=dtype)
            continue
        raw = torch.frombuffer(memory, dtype=torch.uint8, count=last - first, offset=8 + size + first)
        yield name, raw.view(dtype).reshape(entry["shape"])


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m zellige.checkpoint", description=__doc__.splitlines()[0])
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--plan", required=True, help="the rules, as zellige reshard reads them")
    parser.add_argument("--to-dcp", action="store_true", help="write a folder of torch.distributed.checkpoint")
    parser.add_argument("--program", default="zellige", help="the program zellige")
    parser.add_argument("--drop-others", action="store_true", help="leave out what is no tensor")
    parser.add_argument("--verify", action="store_true", help="compare checksums of all tensors")
    args = parser.parse_args(arguments)
    try:
        reshard(args.source, args.target, args.plan, to_dcp=args.to_dcp, program=args.program, drop_others=args.drop_others, verify=args.verify)
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
