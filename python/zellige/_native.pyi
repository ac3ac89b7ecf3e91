"""Layouts, moves, and the simulated device, in Rust."""

from collections.abc import Sequence
from typing import Any, ClassVar, final

from typing_extensions import Self

__version__: str

class LayoutError(ValueError):
    """A layout, or a request about one, that is refused."""

class DeviceError(RuntimeError):
    """What the simulated device refuses."""

    # The first result of the operation that the compiler refuses, where the refusal is about a single one.
    refused_result: str | None

class InternalError(RuntimeError):
    """A defect of zellige: the engine panicked. Calls after it work; please report it."""

_Place = dict[str, int]

@final
class Layout:
    """Where every element of a tensor lives."""

    def __new__(cls, text: Any, shape: Sequence[int] | None = None, *, notation: str | None = None) -> Self: ...
    @staticmethod
    def parse(text: str, shape: Sequence[int] | None = None, *, notation: str | None = None) -> Layout: ...
    @staticmethod
    def strided(size: Sequence[int], stride: Sequence[int] | None = None, offset: int = 0) -> Layout: ...
    @staticmethod
    def scale_factors(
        rows: int,
        groups: int,
        *,
        bits: int = 8,
        sf_per_mma: int = 1,
        reuse: int = 1,
        pipe_depth: int | None = None,
    ) -> Layout: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def size(self) -> int: ...
    @property
    def axes(self) -> list[str]: ...
    @property
    def notation(self) -> str: ...
    @property
    def bijective(self) -> bool: ...
    def span(self, axis: str = "m") -> int: ...
    def nbytes(self, itemsize: int) -> int: ...
    def to(self, notation: str, dtype: Any | None = None) -> str: ...
    def notations(self, dtype: Any | None = None) -> dict[str, str]: ...
    def explain(self, dtype: Any | None = None) -> str: ...
    def apply(self, *coordinate: Any) -> list[_Place]: ...
    def __call__(self, *coordinate: Any) -> list[_Place]: ...
    def inverse(self) -> Layout: ...
    def compose(self, other: Any) -> Layout: ...
    def composition(self, other: Any) -> Layout: ...
    def coalesce(self) -> Layout: ...
    def complement(self, cosize: int) -> Layout: ...
    def right_inverse(self) -> Layout: ...
    def left_inverse(self) -> Layout: ...
    def logical_divide(self, other: Any) -> Layout: ...
    def zipped_divide(self, other: Any) -> Layout: ...
    def tiled_divide(self, other: Any) -> Layout: ...
    def flat_divide(self, other: Any) -> Layout: ...
    def logical_product(self, other: Any) -> Layout: ...
    def zipped_product(self, other: Any) -> Layout: ...
    def tiled_product(self, other: Any) -> Layout: ...
    def flat_product(self, other: Any) -> Layout: ...
    def blocked_product(self, other: Any) -> Layout: ...
    def raked_product(self, other: Any) -> Layout: ...
    def __matmul__(self, other: Any, /) -> Layout: ...
    def slice(self, region: Sequence[tuple[int, int]]) -> Layout: ...
    def __getitem__(self, key: Any, /) -> Layout: ...
    def difference(self, other: Any) -> dict[str, Any] | None: ...
    @staticmethod
    def from_ttgir(text: str) -> dict[str, Layout]: ...
    def _repr_svg_(self) -> str: ...
    def _repr_html_(self) -> str: ...

@final
class KtirModule:
    """A module of tile kernels; `zellige.ktir` is made of it."""

    def __new__(cls, source: str) -> Self: ...
    def functions(self) -> list[str]: ...
    def arguments(self, kernel: str) -> list[tuple[str, str]]: ...
    def grid(self, kernel: str) -> list[int]: ...
    def sizes(self, kernel: str) -> list[tuple[str, list[int], str]]: ...
    def print(self) -> str: ...
    def run(
        self,
        kernel: str,
        arrays: Sequence[tuple[str, str, Sequence[int], bytes]],
        scalars: Sequence[tuple[str, int | float]],
        hardware: str = "ktir",
        pipeline: str = "serial",
        compat: bool = False,
        threads: int | None = None,
    ) -> tuple[dict[str, bytearray], str]: ...

@final
class DataFormats:
    """The number formats of the device."""

    SEN169_FP16: ClassVar[DataFormats]
    IEEE_FP32: ClassVar[DataFormats]
    INVALID: ClassVar[DataFormats]
    SEN143_FP8: ClassVar[DataFormats]
    SEN152_FP8: ClassVar[DataFormats]
    SEN153_FP9: ClassVar[DataFormats]
    SENINT2: ClassVar[DataFormats]
    SENINT4: ClassVar[DataFormats]
    SENINT8: ClassVar[DataFormats]
    SENINT16: ClassVar[DataFormats]
    SENINT24: ClassVar[DataFormats]
    IEEE_INT64: ClassVar[DataFormats]
    IEEE_INT32: ClassVar[DataFormats]
    SENUINT32: ClassVar[DataFormats]
    SENUINT2: ClassVar[DataFormats]
    IEEE_FP16: ClassVar[DataFormats]
    BOOL: ClassVar[DataFormats]
    BFLOAT16: ClassVar[DataFormats]
    SEN18F_FP24: ClassVar[DataFormats]
    IEEE_FP64: ClassVar[DataFormats]
    COMPLEX64: ClassVar[DataFormats]
    COMPLEX128: ClassVar[DataFormats]
    UINT16: ClassVar[DataFormats]
    UINT64: ClassVar[DataFormats]

    def elems_per_stick(self) -> int | None: ...

@final
class ElementArrangement:
    """The orders of elements inside a stick."""

    STANDARD: ClassVar[ElementArrangement]
    DL16_TO_FP32: ClassVar[ElementArrangement]
    FP32_TO_DL16: ClassVar[ElementArrangement]
    QFP8WT: ClassVar[ElementArrangement]
    QFP8CH: ClassVar[ElementArrangement]

@final
class SpyreTensorLayout:
    """How a tensor lies on the device."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self: ...
    def with_host(self, size: Sequence[int], stride: Sequence[int] | None = None) -> SpyreTensorLayout: ...
    @staticmethod
    def in_format(size: Sequence[int], format: DataFormats, strides: Sequence[int] | None = None) -> SpyreTensorLayout: ...
    @property
    def device_size(self) -> list[int]: ...
    @property
    def stride_map(self) -> list[int]: ...
    @property
    def device_stride(self) -> list[int]: ...
    @property
    def num_stick_dims(self) -> int: ...
    @property
    def device_dtype(self) -> DataFormats: ...
    @property
    def element_arrangement(self) -> ElementArrangement: ...
    @property
    def host_size(self) -> list[int] | None: ...
    @property
    def host_stride(self) -> list[int] | None: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def is_sparse(self) -> bool: ...
    def elems_per_stick(self) -> int: ...
    def restickify(self, dim: int) -> SpyreTensorLayout: ...
    def dim_map(self) -> list[int]: ...
    def stick_dims(self, size: Sequence[int]) -> list[int]: ...
    def layout(self, shape: Sequence[int] | None = None) -> Layout: ...
    def _repr_svg_(self) -> str | None: ...

def relayout(
    array: Any,
    src: Any | None = None,
    dst: Any | None = None,
    out: Any | None = None,
    *,
    fill: float | str | None = None,
    threads: int | None = None,
) -> Any:
    """Elements of an array from one layout to another, without a copy on the way."""

_Message = tuple[int, int, int, int]
_Nests = list[tuple[list[tuple[int, int, int]], list[tuple[int, int]]]]

@final
class ReshardPlan:
    """What a rank does to bring a tensor from one sharding to another."""

    def __new__(
        cls,
        src: Any,
        dst: Any,
        width: int,
        rank: int,
        *,
        shape: Sequence[int] | None = None,
        src_mesh: Sequence[tuple[str, int]] | None = None,
        dst_mesh: Sequence[tuple[str, int]] | None = None,
        src_numbers: tuple[int, Sequence[int]] | None = None,
        dst_numbers: tuple[int, Sequence[int]] | None = None,
        ranks: int | None = None,
        memory: int | None = None,
        topology: str | None = None,
    ) -> Self: ...
    @property
    def ranks(self) -> int: ...
    @property
    def rank(self) -> int: ...
    @property
    def shape(self) -> list[int]: ...
    @property
    def rounds(self) -> int: ...
    @property
    def sent(self) -> int: ...
    @property
    def received(self) -> int: ...
    @property
    def kept(self) -> int: ...
    @property
    def traffic(self) -> int: ...
    @property
    def digest(self) -> bytes: ...
    def shapes(self, target: bool) -> list[list[int]] | None: ...
    def fills(self, elements: int) -> bool: ...
    def certificate(self) -> dict[str, Any]: ...
    def process(self, padded_source: bool, padded_target: bool) -> ReshardProcess: ...

@final
class ReshardProcess:
    """What one process does: its copies, and its rounds."""

    def keep(self, local: Any, out: Any, threads: int) -> None: ...
    def kept_nests(self) -> _Nests: ...
    def round(self, index: int, slot: int = 0, header: int = 0) -> ReshardRound: ...

@final
class ReshardRound:
    """The messages of one round."""

    @property
    def sends(self) -> list[_Message]: ...
    @property
    def receives(self) -> list[_Message]: ...
    @property
    def staging(self) -> tuple[int, int]: ...
    def pack(self, local: Any, buffer: Any, threads: int, slots: bool) -> None: ...
    def unpack_slots(self, slots: Any, out: Any) -> None: ...
    def unpack(self, index: int, buffer: Any, out: Any, threads: int) -> None: ...
    def pack_nests(self, index: int) -> _Nests: ...
    def unpack_nests(self, index: int) -> _Nests: ...

def thread_pool() -> dict[str, str | int | None]:
    """Which threads large moves and the simulated card use: the pool, and the OpenMP runtime of the process."""

def set_thread_pool(name: str) -> str:
    """Has this process use the pool "auto", "own" or "openmp"; returns the one until then."""

def instruction_set() -> str:
    """The instruction set in use: "avx512", "avx2", "neon" or "baseline"."""

def relayout_shape(shape: Sequence[int], src: Any | None = None, dst: Any | None = None) -> list[int]:
    """The shape of the new array that `relayout` makes of an array of this shape."""

def cuda_program(
    src: Any,
    dst: Any,
    shape: Sequence[int],
    dtype: Any,
    out_dtype: Any | None = None,
    *,
    fill: float | str | None = None,
    alignment: tuple[int, int] = ...,
) -> list[tuple[str, list[tuple[str, int, int, int]]]]:
    """The CUDA C++ of a move, and its launches, without a device."""

def cuda_compile(source: str, arch: int = 90) -> tuple[bytes, bool]:
    """CUDA C++ compiled by NVRTC, and whether it was compiled before."""

def cuda_device(ordinal: int = 0) -> tuple[str, int, int, tuple[int, int]]:
    """The name, architecture and multiprocessors of a CUDA device, and the version of NVRTC."""

def explain(layout: Any, shape: Sequence[int] | None = None, dtype: Any | None = None) -> str:
    """A layout in words: what it is, what it costs, what looks wrong."""

def draw(
    layout: Any,
    shape: Sequence[int] | None = None,
    dtype: Any | None = None,
    title: str = "",
    width: int = 100,
    color: bool = False,
    max_cells: int = 4096,
) -> tuple[str, str]:
    """A layout drawn: as text for a terminal, and as an SVG."""

def ask(request: dict[str, Any]) -> Any:
    """One request of `zellige ask`."""

def run_program(arguments: Sequence[str]) -> int:
    """Runs the program `zellige`, named first, in a process of its own; returns its exit code."""
