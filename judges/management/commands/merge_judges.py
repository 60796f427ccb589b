"""`manage.py merge_judges A B OUT`: merge the weights of two fine-tuned judges."""

import json
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm

from judges.core.spec import family_of
from judges.core.weights import (
    METHODS,
    NEEDS_BASE,
    Recipe,
    Tensor,
    WeightsError,
    check_alike,
    read_folder,
    write_file,
)
from judges.models import MergedModel

SIDECAR = "ringside_merge.json"
LEFT_BEHIND = (".safetensors", ".safetensors.index.json", ".bin", ".pt", ".pth", ".gguf")


class Command(BaseCommand):
    help = "Merge two fine-tuned judges, for example one for scores and one for pairs, into one."

    def add_arguments(self, parser: CommandParser) -> None:
        add = parser.add_argument
        add("first", type=Path, metavar="A", help="a folder with .safetensors files")
        add("second", type=Path, metavar="B", help="another, fine-tuned from the same base model")
        add("out", type=Path, metavar="OUT", help="a new folder for the merged model")
        add("--method", choices=METHODS, default="linear", help="default: linear")
        add("--base", type=Path, metavar="DIR", help="the base model; linear and slerp need none")
        add("--share", type=float, default=0.5, help="the weight of A; default: 0.5")
        add("--drop", type=float, default=0.1, help="dare, dare-ties: p; default: 0.1")
        add("--scale", type=float, help="lambda; default: 1.95 for dare, else 1")
        add("--keep", type=float, default=0.2, help="ties: the share to keep; default: 0.2")
        add("--seed", type=int, default=42, help="dare, dare-ties: default: 42")
        add("--name", help="the name the model will be served under; default: that of OUT")
        add("--family", help="the model family, if the parents' files do not name it")

    def handle(self, *args: Any, **options: Any) -> None:
        out: Path = options["out"]
        try:
            names = ("method", "share", "drop", "scale", "keep", "seed")
            recipe = Recipe(**{name: options[name] for name in names})
            folders = _folders_to_merge(options, recipe)
            models = [read_folder(folder) for folder in folders]
            tensors = [
                _join_tensors(model, folder) for model, folder in zip(models, folders, strict=True)
            ]
            check_alike(tensors, [str(folder) for folder in folders])
            family = options["family"] or _family_of_parents(folders[:2])
            if out.exists():
                raise WeightsError(f"{out} exists. Choose a new folder.")
            facts = asdict(recipe) | {
                "scale": recipe.factor,
                "family": family,
                "parents": [folder.resolve().name for folder in folders[:2]],
            }
            _write_folder(out, folders[0], models[0], tensors[1:], recipe, facts)
        except (WeightsError, OSError) as error:
            raise CommandError(str(error)) from None
        name = (options["name"] or out.resolve().name).rsplit("/", 1)[-1]
        MergedModel.objects.update_or_create(
            name=name,
            defaults={"family": family, "parents": facts["parents"], "recipe": facts},
        )
        self.stdout.write(f"{out}: merged. `{name}` belongs to the family {family}.")


def _folders_to_merge(options: dict[str, Any], recipe: Recipe) -> list[Path]:
    """The two judges, and the base if the method needs it."""
    first, second, base = options["first"], options["second"], options["base"]
    if first.resolve() == second.resolve():
        raise WeightsError("A and B are the same folder.")
    if recipe.method not in NEEDS_BASE:
        return [first, second]
    if base is None:
        raise WeightsError(
            f"{recipe.method} needs the model that both were tuned from: --base DIR."
        )
    return [first, second, base]


def _join_tensors(model: dict[str, dict[str, Tensor]], folder: Path) -> dict[str, Tensor]:
    """The tensors of all files of a model; none may be in two."""
    tensors: dict[str, Tensor] = {}
    for file, own in model.items():
        if twice := tensors.keys() & own.keys():
            raise WeightsError(f"{folder / file} repeats the tensor `{min(twice)}`.")
        tensors |= own
    return tensors


def _family_of_parents(parents: list[Path]) -> str:
    """The family that both parents have, by their architecture or else their names."""
    families = {_family_of(folder) for folder in parents}
    if len(families) > 1:
        names = " and ".join(sorted(families))
        raise WeightsError(
            f"The parents seem to belong to the families {names}. Choose one with --family."
        )
    return families.pop()


def _family_of(folder: Path) -> str:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        architecture = str(config.get("model_type") or "")
    except (OSError, ValueError, AttributeError):
        architecture = ""
    name = folder.resolve().name
    return MergedModel.objects.family_of(name) or family_of(architecture or name)


def _write_folder(
    out: Path,
    first: Path,
    files: dict[str, dict[str, Tensor]],
    others: list[dict[str, Tensor]],
    recipe: Recipe,
    facts: dict[str, Any],
) -> None:
    """Write the folder, which appears complete or not at all."""
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=out.parent))
    total = sum(tensor.end - tensor.start for own in files.values() for tensor in own.values())
    try:
        for source in first.iterdir():
            index = source.name.endswith(".safetensors.index.json")
            if source.is_file() and (index or not source.name.endswith(LEFT_BEHIND)):
                shutil.copyfile(source, draft / source.name)
        with tqdm(total=total, unit="B", unit_scale=True, file=sys.stderr, disable=None) as bar:
            for name, tensors in files.items():
                with (draft / name).open("wb") as file:
                    write_file(file, tensors, others, recipe, bar.update)
        (draft / SIDECAR).write_text(json.dumps(facts, indent=2) + "\n", encoding="utf-8")
        draft.chmod(0o755)
        draft.replace(out)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
