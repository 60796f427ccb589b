"""Merged judges: the formulas in float64, files that other tools read, refusals, the family."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from judges.core import weights
from judges.core.weights import Recipe, decode, dropping, encode
from judges.models import MergedModel
from judges.services.registry import register_judge, spec_named, spec_of
from judges.services.subjects import families_in
from tests.factories import make_arena
from tests.judges.helpers import add_endpoint

pytestmark = [pytest.mark.any_database, pytest.mark.django_db]
RNG = np.random.default_rng(7)
SHAPES = {"embed": (40, 16), "layer.0": (16, 16), "norm": (16,), "empty": (0, 4)}


def model(folder: Path, tensors: dict[str, Any], model_type: str = "mistral") -> Path:
    """A model in two files, as large ones are."""
    folder.mkdir()
    names = sorted(tensors)
    parts = {"model-1.safetensors": names[:2], "model-2.safetensors": names[2:]}
    for file, own in parts.items():
        save_file({name: tensors[name] for name in own}, folder / file)
    index = {"weight_map": {name: file for file, own in parts.items() for name in own}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
    (folder / "tokenizer.json").write_text("{}")
    return folder


@pytest.fixture
def three(tmp_path: Path) -> dict[str, Path]:
    base = {name: RNG.normal(size=shape).astype("f4") for name, shape in SHAPES.items()}
    base["steps"] = np.arange(3)
    folders = {"base": model(tmp_path / "base", base)}
    for name in ("a", "b"):
        tuned = {
            key: value + (0.1 * RNG.normal(size=value.shape)).astype("f4")
            if value.dtype == np.float32
            else value
            for key, value in base.items()
        }
        folders[name] = model(tmp_path / name, tuned)
    return folders


def read(folder: Path) -> dict[str, Any]:
    return {
        name: value
        for file in sorted(folder.glob("*.safetensors"))
        for name, value in load_file(file).items()
    }


def merge(three: dict[str, Path], out: str = "merged", **options: Any) -> dict[str, Any]:
    target = three["a"].parent / out
    call_command("merge_judges", three["a"], three["b"], target, stdout=io.StringIO(), **options)
    return read(target)


def oracle(method: str, name: str, a: Any, b: Any, o: Any, recipe: Recipe) -> Any:
    """The formulas over whole tensors in float64."""
    share = recipe.share
    if method == "linear":
        return share * a + (1 - share) * b
    if method == "slerp":
        x, y = a.ravel(), b.ravel()
        angle = np.arccos(x @ y / (np.linalg.norm(x) * np.linalg.norm(y)))
        t = 1 - share
        return (np.sin((1 - t) * angle) * a + np.sin(t * angle) * b) / np.sin(angle)
    if method == "task-arithmetic":
        return o + recipe.factor * share * (a - o) + recipe.factor * (1 - share) * (b - o)
    if method in ("dare", "dare-ties"):
        kept = [
            dropping(recipe.seed, name, i).random(a.size).reshape(a.shape) >= recipe.drop
            for i in (0, 1)
        ]
        changes = [mask * (x - o) / (1 - recipe.drop) for mask, x in zip(kept, (a, b), strict=True)]
        if method == "dare":
            return o + 1.95 * (share * changes[0] + (1 - share) * changes[1])
        one, other = share * changes[0], (1 - share) * changes[1]
        opposed = one * other < 0  # then the larger of the two is the sum's sign
        return o + np.where(opposed, np.where(np.abs(one) > np.abs(other), one, other), one + other)
    trimmed = []
    for change in (a - o, b - o):
        n = int(np.ceil(recipe.keep * change.size))
        limit = np.sort(np.abs(change).ravel())[-n]
        trimmed.append(np.where(np.abs(change) >= limit * (1 - 1e-7), change, 0))
    elected = np.sign(share * trimmed[0] + (1 - share) * trimmed[1])
    top = sum(
        w * np.where(np.sign(c) == elected, c, 0)
        for w, c in zip((share, 1 - share), trimmed, strict=True)
    )
    below = sum(
        w * ((np.sign(c) == elected) & (c != 0))
        for w, c in zip((share, 1 - share), trimmed, strict=True)
    )
    return o + np.divide(top, below, out=np.zeros_like(o), where=below > 0)


@pytest.mark.parametrize("method", weights.METHODS)
@pytest.mark.parametrize(("share", "piece"), [(0.5, 1 << 21), (0.3, 7)])
def test_a_merge_follows_its_formula(
    method: str, share: float, piece: int, three: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "PIECE", piece)
    merged = merge(three, method=method, share=share, base=three["base"])
    a, b, o = (read(three[name]) for name in ("a", "b", "base"))
    assert merged.keys() == a.keys()
    for name in ("embed", "layer.0", "norm"):
        parts = [one[name].astype("f8") for one in (a, b, o)]
        expected = oracle(method, name, *parts, Recipe(method, share))
        assert merged[name].dtype == np.float32
        assert np.abs(merged[name] - expected).max() < 1e-6, name
    assert (merged["steps"] == np.arange(3)).all()


def test_task_arithmetic_moves_further_only_with_a_scale(three: dict[str, Path]) -> None:
    plain = merge(three, "plain", method="task-arithmetic", base=three["base"], share=0.3)
    far = merge(three, "far", method="task-arithmetic", base=three["base"], share=0.3, scale=2.0)
    linear, base = merge(three, "linear", share=0.3), read(three["base"])
    assert np.allclose(plain["embed"], linear["embed"], atol=1e-6)
    assert np.allclose(far["embed"], 2 * linear["embed"] - base["embed"], atol=1e-5)


def test_dare_drops_the_share_that_it_should_and_repeats_itself(three: dict[str, Path]) -> None:
    first = merge(three, "one", method="dare", base=three["base"], drop=0.6)
    again = merge(three, "two", method="dare", base=three["base"], drop=0.6)
    other = merge(three, "three", method="dare", base=three["base"], drop=0.6, seed=1)
    assert (first["embed"] == again["embed"]).all()
    assert (first["embed"] != other["embed"]).any()
    both_dropped = (first["embed"] == read(three["base"])["embed"]).mean()
    assert both_dropped == pytest.approx(0.36, abs=0.08)


def test_bfloat16_is_rounded_to_the_nearest_and_ties_to_even() -> None:
    numbers = np.array([1.0, 1.00390625, 1.01171875, -3.14159, 0.0, 1e-40, 3e38, np.nan])
    back = decode(encode(numbers, "BF16"), "BF16")
    assert list(back[:3]) == [1.0, 1.0, 1.015625]
    assert np.isnan(back[-1])
    assert np.abs(back[3] / numbers[3] - 1) < 2**-8
    sample = RNG.normal(size=1000)
    assert np.abs(decode(encode(sample, "BF16"), "BF16") / sample - 1).max() <= 2**-8


def test_the_folder_is_complete_and_says_how_it_was_made(three: dict[str, Path]) -> None:
    merge(three, method="dare", base=three["base"])
    out = three["a"].parent / "merged"
    names = {path.name for path in out.iterdir()}
    assert names == {path.name for path in three["a"].iterdir()} | {"ringside_merge.json"}
    facts = json.loads((out / "ringside_merge.json").read_text())
    assert facts["parents"] == ["a", "b"]
    assert (facts["method"], facts["drop"], facts["scale"]) == ("dare", 0.1, 1.95)
    with safe_open(out / "model-1.safetensors", "np") as file:
        assert file.metadata() == {"format": "pt"}


def damage(three: dict[str, Path], how: str) -> dict[str, Any]:
    """Make one input unusable; return further options."""
    file = three["b"] / "model-1.safetensors"
    tensors = load_file(file)
    if how == "shape":
        save_file(tensors | {"embed": np.zeros((2, 2), "f4")}, file)
    elif how == "dtype":
        save_file(tensors | {"embed": tensors["embed"].astype("f2")}, file)
    elif how == "missing":
        save_file({"empty": tensors["empty"]}, file)
    elif how == "truncated":
        file.write_bytes(file.read_bytes()[:-5])
    elif how == "not one":
        file.write_bytes(b"pickle")
    elif how == "adapter":
        (three["b"] / "adapter_config.json").write_text("{}")
    elif how == "family":
        (three["b"] / "config.json").write_text('{"model_type": "qwen2"}')
    elif how == "steps":
        save_file(
            load_file(three["b"] / "model-2.safetensors") | {"steps": np.ones(3, int)},
            three["b"] / "model-2.safetensors",
        )
    return {"no base": {"method": "dare"}, "share": {"share": 1.5}}.get(how, {})


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("shape", r"`embed` has the shape \[40, 16\] in .*a and \[2, 2\] in .*b"),
        ("dtype", "`embed` is F32 in .* and F16 in"),
        ("missing", "b has no tensor `embed`, which .*a has"),
        ("truncated", "is not complete. Download it again"),
        ("not one", "is not a safetensors file, or it is damaged"),
        ("adapter", "is an adapter. Merge it into its base model first"),
        ("family", "to the families mistral and qwen. Choose one with --family"),
        ("steps", "`steps` is I64 and differs"),
        ("no base", "dare needs the model that both were tuned from: --base DIR"),
        ("share", "Share must be from 0 to 1"),
    ],
)
def test_what_cannot_be_merged_is_refused_with_a_reason_and_leaves_nothing(
    how: str, why: str, three: dict[str, Path]
) -> None:
    options = damage(three, how)
    with pytest.raises(CommandError, match=why):
        merge(three, **options)
    assert sorted(path.name for path in three["a"].parent.iterdir()) == ["a", "b", "base"]
    assert not MergedModel.objects.exists()


def test_a_folder_that_exists_is_never_replaced(three: dict[str, Path]) -> None:
    merge(three)
    with pytest.raises(CommandError, match="Choose a new folder"):
        merge(three)
    with pytest.raises(CommandError, match="the same folder"):
        call_command("merge_judges", three["a"], three["a"], three["a"].parent / "x")


def test_a_merged_judge_is_of_its_parents_family(three: dict[str, Path], settings: Any) -> None:
    before = spec_named("scripted:scripted-1").digest
    merge(three, name="house-judge-v1")
    add_endpoint(settings, "local")
    spec = spec_named("local:acme/house-judge-v1@prometheus-relative")
    assert spec.family == "mistral"
    judge = register_judge(spec=spec).judge
    assert judge.family == "mistral"
    assert spec_of(judge).digest == judge.digest
    assert spec_named("scripted:scripted-1").digest == before
    assert spec_named("local:other-judge-v1").family == "other"
    arena = make_arena(2, 1)
    arena.candidates.filter(name="candidate-0").update(model="acme/house-judge-v1")
    assert "mistral" in families_in(arena).values()
    merge(three | {"b": three["a"].parent / "merged"}, "next", family=None)
    assert MergedModel.objects.get(name="next").family == "mistral"


@pytest.mark.slow
def test_memory_stays_flat(tmp_path: Path) -> None:
    import resource

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text('{"model_type": "llama"}')
        save_file(
            {"large": RNG.normal(size=(8000, 4000)).astype("f4")},
            tmp_path / name / "model.safetensors",
        )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    call_command("merge_judges", tmp_path / "a", tmp_path / "b", tmp_path / "out")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert (tmp_path / "out" / "model.safetensors").stat().st_size > 128_000_000
    assert grown < 150 * 1024, grown
