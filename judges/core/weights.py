"""Merging the weights of fine-tuned judges, as Prometheus 2 was made (Kim et al. 2024).

With the weights a and b of two judges, their base model o, and the share s of the first:

- linear: s a + (1 - s) b (their equation 3)
- task arithmetic (Ilharco et al. 2022): o + scale (s (a - o) + (1 - s) (b - o)); with a scale of 1,
  which their equation 5 has, the base cancels out and this is linear
- DARE (Yu et al. 2023): o + scale (s d(a - o) + (1 - s) d(b - o)), where d drops each number with
  the probability p and divides the others by 1 - p
- TIES (Yadav et al. 2024): of each difference the largest numbers stay, the sign with the greater
  sum wins, and o + scale times the weighted mean of the numbers with that sign
- DARE-TIES (their appendix G): DARE, but of the enlarged differences only those with the sign that
  has the greater sum are added
- SLERP (Shoemake 1985): along the arc between a and b, where a share of 1 is a

Weights are safetensors files. They are read and written in pieces, computed in float64, and rounded
once; TIES also keeps the size of one tensor's differences in memory.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Combine = Callable[[list[Array]], Array]
PIECE = 1 << 21  # numbers of a tensor that are in memory at once
LONGEST_HEADER = 100_000_000
FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
METHODS = ("linear", "task-arithmetic", "dare", "ties", "dare-ties", "slerp")
NEEDS_BASE = ("task-arithmetic", "dare", "ties", "dare-ties")


class WeightsError(Exception):
    """Weights that cannot be merged; the message is a sentence for people."""


@dataclass(frozen=True)
class Recipe:
    """How to merge. The defaults are the paper's: equal shares, p = 0.1 and scale 1.95 for DARE
    (their table 10), and for TIES those of its own paper."""

    method: str = "linear"
    share: float = 0.5
    drop: float = 0.1
    scale: float | None = None
    keep: float = 0.2
    seed: int = 42

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise WeightsError(f"The method is one of: {', '.join(METHODS)}.")
        if not (0 <= self.share <= 1 and 0 <= self.drop < 1 and 0 < self.keep <= 1):
            raise WeightsError(
                "Share must be from 0 to 1, drop at least 0 and below 1, and keep above 0 and at "
                "most 1."
            )

    @property
    def factor(self) -> float:
        return {"dare": 1.95}.get(self.method, 1.0) if self.scale is None else self.scale


@dataclass(frozen=True)
class Tensor:
    """One tensor of a safetensors file; `start` is the position of its first byte."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int

    def pieces(self) -> Iterator[bytes]:
        """Yield its bytes, a piece at a time."""
        step = PIECE * np.dtype(FLOATS.get(self.dtype, "u1")).itemsize
        with self.path.open("rb") as file:
            file.seek(self.start)
            for place in range(self.start, self.end, step):
                yield file.read(min(step, self.end - place))

    def numbers(self) -> Iterator[Array]:
        return (decode(piece, self.dtype) for piece in self.pieces())


def read_header(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file, in the order of their bytes; raises WeightsError."""
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size) if size <= LONGEST_HEADER else b"")
        tensors = {
            name: Tensor(
                path,
                str(facts["dtype"]),
                tuple(map(int, facts["shape"])),
                *(8 + size + int(offset) for offset in facts["data_offsets"]),
            )
            for name, facts in header.items()
            if name != "__metadata__"
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise WeightsError(f"{path} is not a safetensors file, or it is damaged.") from None
    ordered = dict(sorted(tensors.items(), key=lambda pair: pair[1].start))
    if not ordered or path.stat().st_size != max(tensor.end for tensor in ordered.values()):
        raise WeightsError(f"{path} is not complete. Download it again.")
    return ordered


def read_folder(folder: Path) -> dict[str, dict[str, Tensor]]:
    """Return the tensors of a model by file; raises WeightsError."""
    if not folder.is_dir():
        raise WeightsError(f"{folder} is not a folder.")
    if (folder / "adapter_config.json").exists():
        raise WeightsError(f"{folder} is an adapter. Merge it into its base model first (PEFT).")
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise WeightsError(f"{folder} has no .safetensors files. Save the model as safetensors.")
    return {file.name: read_header(file) for file in files}


def decode(data: bytes, dtype: str) -> Array:
    raw = np.frombuffer(data, FLOATS[dtype])
    if dtype == "BF16":  # the upper half of a float32
        raw = (raw.astype(np.uint32) << 16).view(np.float32)
    return raw.astype(np.float64)


def encode(numbers: Array, dtype: str) -> bytes:
    """Return the bytes of numbers, each rounded to the nearest one of the type (ties to even)."""
    if dtype != "BF16":
        with np.errstate(over="ignore"):
            return numbers.astype(FLOATS[dtype]).tobytes()
    bits = numbers.astype("<f4").view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(numbers), 0x7FC0, rounded).astype("<u2").tobytes()


def check_alike(models: Sequence[dict[str, Tensor]], names: Sequence[str]) -> None:
    """Raise WeightsError unless all models have the same tensors, shapes and types."""
    first = models[0]
    for model, name in zip(models[1:], names[1:], strict=True):
        if odd := sorted(first.keys() ^ model.keys()):
            has, lacks = (names[0], name) if odd[0] in first else (name, names[0])
            raise WeightsError(f"{lacks} has no tensor `{odd[0]}`, which {has} has.")
        for key, tensor in first.items():
            other = model[key]
            if tensor.shape != other.shape:
                shapes = f"{list(tensor.shape)} in {names[0]} and {list(other.shape)} in {name}"
                raise WeightsError(f"`{key}` has the shape {shapes}: these models differ.")
            if tensor.dtype != other.dtype:
                types = f"{tensor.dtype} in {names[0]} and {other.dtype} in {name}"
                raise WeightsError(f"`{key}` is {types}. Convert one of them first.")


def merge_tensor(name: str, tensors: Sequence[Tensor], recipe: Recipe) -> Iterator[bytes]:
    """Yield the bytes of the merged tensor; `tensors` are those of the two judges and, if the
    method needs it, of the base. Raises WeightsError.
    """
    dtype = tensors[0].dtype
    if dtype not in FLOATS:
        for pieces in zip(*(tensor.pieces() for tensor in tensors), strict=True):
            if len(set(pieces)) > 1:
                raise WeightsError(f"`{name}` is {dtype} and differs: only floats can be merged.")
            yield pieces[0]
        return
    combine = _COMBINE[recipe.method](name, tensors, recipe)
    for parts in zip(*(tensor.numbers() for tensor in tensors), strict=True):
        yield encode(combine(list(parts)), dtype)


def _linear(name: str, tensors: Sequence[Tensor], recipe: Recipe) -> Combine:
    return lambda parts: recipe.share * parts[0] + (1 - recipe.share) * parts[1]


def _task_arithmetic(name: str, tensors: Sequence[Tensor], recipe: Recipe) -> Combine:
    merged = _linear(name, tensors, recipe)
    return lambda parts: parts[2] + recipe.factor * (merged(parts) - parts[2])


def _dare(name: str, tensors: Sequence[Tensor], recipe: Recipe) -> Combine:
    """Whatever the size of the pieces, the same seed and name drop the same numbers."""
    draws = [dropping(recipe.seed, name, parent) for parent in (0, 1)]
    shares = (recipe.share, 1 - recipe.share)

    def combine(parts: list[Array]) -> Array:
        base = parts[2]
        changes = [
            share * (draw.random(base.size) >= recipe.drop) * (part - base) / (1 - recipe.drop)
            for part, share, draw in zip(parts, shares, draws, strict=False)
        ]
        total = changes[0] + changes[1]
        if recipe.method == "dare-ties":
            sign = np.sign(total)
            total = np.sum([np.where(np.sign(part) == sign, part, 0.0) for part in changes], axis=0)
        return base + recipe.factor * total

    return combine


def dropping(seed: int, name: str, parent: int) -> np.random.Generator:
    """The source of the draws for one tensor of one parent."""
    digest = hashlib.sha256(f"{seed} {parent} {name}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "little")))


def _ties(name: str, tensors: Sequence[Tensor], recipe: Recipe) -> Combine:
    limits = [_smallest_kept(tensor, tensors[2], recipe.keep) for tensor in tensors[:2]]
    shares = (recipe.share, 1 - recipe.share)

    def combine(parts: list[Array]) -> Array:
        base = parts[2]
        changes = [part - base for part in parts[:2]]
        changes = [
            np.where(np.abs(change).astype(np.float32) >= limit, change, 0.0)
            for change, limit in zip(changes, limits, strict=True)
        ]
        sign = np.sign(shares[0] * changes[0] + shares[1] * changes[1])
        total, weight = np.zeros_like(base), np.zeros_like(base)
        for change, share in zip(changes, shares, strict=True):
            agrees = (np.sign(change) == sign) & (change != 0)
            total += np.where(agrees, share * change, 0.0)
            weight += np.where(agrees, share, 0.0)
        mean = np.divide(total, weight, out=np.zeros_like(total), where=weight > 0)
        return base + recipe.factor * mean

    return combine


def _smallest_kept(tensor: Tensor, base: Tensor, keep: float) -> float:
    """The size of the smallest difference that is kept; an empty tensor keeps all."""
    pairs = zip(tensor.numbers(), base.numbers(), strict=True)
    sizes = [np.abs(tuned - other).astype(np.float32) for tuned, other in pairs]
    if not sizes:
        return 0.0
    joined = np.concatenate(sizes)
    place = joined.size - max(1, math.ceil(keep * joined.size))
    joined.partition(place)
    return float(joined[place])


def _slerp(name: str, tensors: Sequence[Tensor], recipe: Recipe) -> Combine:
    sums = np.zeros(3)
    for a, b in zip(tensors[0].numbers(), tensors[1].numbers(), strict=True):
        sums += a @ a, b @ b, a @ b
    lengths = math.sqrt(sums[0] * sums[1])
    angle = math.acos(max(-1.0, min(1.0, sums[2] / lengths))) if lengths else 0.0
    if math.sin(angle) < 1e-6:  # parallel: the arc is a line
        return _linear(name, tensors, recipe)
    first = math.sin(recipe.share * angle) / math.sin(angle)
    second = math.sin((1 - recipe.share) * angle) / math.sin(angle)
    return lambda parts: first * parts[0] + second * parts[1]


_COMBINE: dict[str, Callable[[str, Sequence[Tensor], Recipe], Combine]] = {
    "linear": _linear,
    "task-arithmetic": _task_arithmetic,
    "dare": _dare,
    "ties": _ties,
    "dare-ties": _dare,
    "slerp": _slerp,
}


def write_file(
    out: BinaryIO,
    files: dict[str, Tensor],
    others: Sequence[dict[str, Tensor]],
    recipe: Recipe,
    progress: Callable[[int], Any],
) -> None:
    """Write one merged file with the names, shapes and order of `files`, a tensor at a time."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    place = 0
    for name, tensor in files.items():
        size = tensor.end - tensor.start
        header[name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [place, place + size],
        }
        place += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    out.write(len(text).to_bytes(8, "little") + text)
    for name, tensor in files.items():
        for piece in merge_tensor(name, [tensor, *(other[name] for other in others)], recipe):
            out.write(piece)
            progress(len(piece))
