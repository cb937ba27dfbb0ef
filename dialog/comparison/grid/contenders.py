"""Read contenders from a command line: recipes, varied recipes, run folders, files of responses."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from dialog.analysis.measured import RESPONSES
from dialog.comparison.grid.folder import (
    GRID,
    Contender,
    Grid,
    check_same_conditions,
    contender_hash,
    flat,
    is_comparison,
    is_ignored,
)
from dialog.comparison.systems.specification import parse_system
from dialog.config.compose import (
    Composed,
    check_numbers,
    compose,
    fill_schema,
    find_recipe,
    is_path,
    split_overrides,
)
from dialog.config.schema import Recipe, to_dict
from dialog.config.trust import FULL_TRUST, NO_TRUST, Trust, check_importable
from dialog.config.variations import UNSAFE, parse_variation, recipe_variations
from dialog.config.yaml_layers import read_yaml
from dialog.data.reading.files import sha256
from dialog.errors import UserError
from dialog.paths import check_links, display_name, is_inner_path
from dialog.runs.evaluation.evaluated import METRICS, check_evaluation
from dialog.runs.folder import RECIPE, hash_of, read_recipe, read_summary
from dialog.runs.load import check_files

SECTIONS = {field.name for field in fields(Recipe)}
"""Keys with which a setting of a recipe begins."""
STATEMENT = {"parameters": int, "data": str, "budget": str}
"""Keys of a system.yaml and the types of their values."""
SUFFIXES = (".jsonl", ".txt")
"""Suffixes of files of responses."""


def split_folder(names: Sequence[str]) -> tuple[Path | None, list[str]]:
    """Split the arguments into the comparison folder, if one is among them, and the contenders.

    Raises:
        UserError: two comparison folders.
    """
    folders = [name for name in names if is_comparison(Path(name)) or Path(name).name == GRID]
    if len(folders) > 1:
        raise UserError(
            f"{folders[1]}: a second comparison folder; give one, and contenders to add"
        )
    others = [name for name in names if name not in folders]
    if not folders:
        return None, others
    path = Path(folders[0])
    return (path.parent if path.name == GRID else path), others


def read_contenders(
    names: Sequence[str],
    overrides: Sequence[str],
    variations: Sequence[str] = (),
    *,
    tune: Sequence[str] = (),
    inherited: Sequence[str] = (),
    systems: Sequence[str] = (),
    trust: Trust = NO_TRUST,
) -> list[Contender]:
    """Return the contenders that a command line names; run folders of one recipe are one contender.

    Args:
        names: Recipes, run folders and files of responses.
        overrides: Settings of the command line, for recipes only.
        variations: ``KEY=A,B``, for recipes only.
        tune: ``KEY=A,B`` from which trials choose, for recipes only.
        inherited: Settings with which the comparison was begun; they apply to its new recipes too.
        systems: Values of ``--system``.
        trust: Which parts recipes of run folders may import.

    Raises:
        UserError: an invalid recipe, run folder or variation, a name listed twice, or overrides
            without a recipe.
    """
    check_tune(tune, variations)
    paths = [Path(name) for name in names]
    for path in paths:
        if path.is_dir() and not (path / RECIPE).exists() and any(path.glob("*.yaml")):
            find_recipe(str(path))  # raises: a folder of recipes is none
    answered = {name: system for name in names if (system := parse_files(name))}
    recipes = [
        name
        for name, path in zip(names, paths, strict=True)
        if not path.is_dir() and name not in answered
    ]
    if not recipes and names and (unused := [*overrides, *variations]):
        raise UserError(f"{unused[0]}: overrides apply to recipes, not to trained runs; remove it")
    settings = [*inherited, *overrides]
    varied = {}
    for name in recipes:
        # A recipe that the caller names may import parts; the folder's own settings must not add
        # any.
        own = FULL_TRUST
        if inherited:
            own = own.within(*(one.recipe for one in vary(name, overrides, variations)))
        varied[name] = vary(name, settings, variations, trust=own)
        dropped = dict.fromkeys(line for composed in varied[name] for line in composed.dropped)
        # once for all values of a variation
        replace(varied[name][0], name=name, dropped=tuple(dropped)).warn_of_dropped()
    shared = Counter(composed.name for several in varied.values() for composed in several)
    groups = group_runs([path for path in paths if path.is_dir()], trust=trust)
    file_names = distinct_names([one.files[0] for one in answered.values() if not one.name])
    contenders: list[Contender] = []
    for name, path in zip(names, paths, strict=True):
        if path.is_dir():
            contenders += [
                group for group in groups if next(iter(group.folders.values())) == absolute(path)
            ]
        elif name in answered:
            files = answered[name].files
            contenders.append(
                responses_contender(files, answered[name].name or file_names[files[0]])
            )
        else:
            contenders += [
                of_recipe(own_name(composed, name, shared), tune) for composed in varied[name]
            ]
    contenders += map(system_contender, systems)
    for name, count in Counter(contender.name for contender in contenders).items():
        if count > 1:
            raise UserError(
                f"{name}: listed twice; list each contender once, and rename files of the same name"
            )
    return contenders


# ------------------------------------------------------------------ recipes


def of_recipe(composed: Composed, tune: Sequence[str] = ()) -> Contender:
    """Return the contender of a recipe to train.

    Raises:
        UserError: a value of ``tune`` that the schema rejects.
    """
    recipe = to_dict(composed.recipe)
    check_importable(composed.recipe, composed.name)
    contender = Contender(
        composed.name, "recipe", contender_hash(composed.recipe), recipe, tune=tuple(tune)
    )
    places = {parse_variation(text)[0]: "--tune" for text in tune}
    for trial in contender.trials.values():
        check_numbers(fill_schema(trial.recipe, places, composed.name), places)
    return replace(contender, trust=FULL_TRUST.within(contender.recipes))


def check_tune(tune: Sequence[str], variations: Sequence[str]) -> None:
    """Check the values from which trials choose.

    Raises:
        UserError: a key with a single value, that ``--vary`` has too, or in which runs of one
            contender may differ.
    """
    varied = {parse_variation(text)[0] for text in variations}
    for text in tune:
        key, values = parse_variation(text, "--tune")
        if len(values) < 2:
            raise UserError(f"--tune {text}: a single value; set it with {text} alone")
        if key in varied:
            raise UserError(f"--tune {text}: --vary has {key} too; leave one of them out")
        if is_ignored(key):
            raise UserError(f"--tune {text}: {key} is no setting that a trial can choose")


def own_name(composed: Composed, recipe: str, shared: Mapping[str, int]) -> Composed:
    """Return a shipped recipe with its own name if several on the same data share that of the data.

    ``dailydialog/transformer`` and ``taskmaster/transformer`` on ``chats.jsonl`` are both
    ``chats/transformer``.
    """
    if is_path(recipe) or shared[composed.name] == 1:
        return composed
    return replace(composed, name=recipe + "".join(composed.name.partition("[")[1:]))


def vary(
    name: str, overrides: Sequence[str], variations: Sequence[str], *, trust: Trust = NO_TRUST
) -> list[Composed]:
    """Compose a recipe with each combination of the values of ``--vary KEY=A,B``.

    A contender is named by its values: ``lstm[attention=dot]``. A plain value of a component is the
        name of a part.

    Raises:
        UserError: no key or value, a value listed twice, or an override that does not fit.
    """
    composed = compose(name, overrides, trust=trust)
    if not variations:
        return [composed]
    return [
        replace(
            compose(name, [*overrides, *settings], trust=trust), name=f"{composed.name}[{label}]"
        )
        for label, settings in recipe_variations(variations, flat(to_dict(composed.recipe)))
    ]


# ------------------------------------------------------------------ trained runs


def group_runs(folders: Sequence[Path], *, trust: Trust) -> list[Contender]:
    """Return trained runs, those of one recipe as one contender with several seeds.

    Raises:
        UserError: no run folder, an unfinished training, a recipe that imports code, two runs of
            the same seed, or seeds on different data.
    """
    groups: dict[str, dict[int, Path]] = {}
    recipes: dict[str, Composed] = {}
    for folder in folders:
        composed = trained_recipe(folder, trust=trust)
        key = contender_hash(composed.recipe)
        seed = composed.recipe.seed
        recipes.setdefault(key, composed)
        before = groups.setdefault(key, {}).setdefault(seed, folder)
        if before is not folder:
            raise UserError(
                f"{before} and {folder}: runs of one recipe with the same seed; give one of them"
            )
        check_same_conditions([*groups[key].values()])
    names = run_names(list(groups.values()))
    return [
        Contender(
            name,
            "runs",
            key,
            to_dict(recipes[key].recipe),
            {seed: absolute(path) for seed, path in group.items()},
            trust=trust.within(recipes[key].recipe),
        )
        for name, (key, group) in zip(names, groups.items(), strict=True)
    ]


def trained_recipe(folder: Path, *, trust: Trust) -> Composed:
    """Read the recipe of a finished run."""
    if not (folder / RECIPE).is_file():
        raise UserError(
            f"{folder} is not a run folder or a comparison folder: it has no {RECIPE} or {GRID}"
        )
    composed = compose(str(folder / RECIPE), trust=trust)
    check_importable(composed.recipe, str(folder))
    if trust != FULL_TRUST:
        check_links(folder, "evaluation")
    check_files(folder)
    if read_summary(folder) is None:
        raise UserError(
            f"{folder}: training has not finished; resume it with python -m dialog train --resume"
            f" {folder}"
        )
    return composed


def absolute(path: Path) -> str:
    """Return the path of a run for grid.json."""
    return str(path.resolve())


# ------------------------------------------------------------------ other systems


class SystemFiles(NamedTuple):
    """Files of responses of one system, one for each seed; without a name of its own if it is
    empty.
    """

    name: str
    files: list[Path]


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split arguments of the command line into contenders and overrides; ``NAME=FILE,FILE`` is a
    contender.
    """
    files = [argument for argument in arguments if parse_files(argument)]
    names, overrides = split_overrides([one for one in arguments if one not in files])
    return [one for one in arguments if one in names or one in files], overrides


def parse_files(argument: str) -> SystemFiles | None:
    """Parse ``FILE`` or ``NAME=FILE,FILE``; None if it names no files of responses.

    A setting of a recipe, such as ``data.path=chats.jsonl``, is none.

    Raises:
        UserError: a name that cannot be that of a folder, or several files without a name.
    """
    start, equals, end = argument.partition("=")
    name = start if equals else ""
    files = (end if equals else argument).split(",")
    if equals and name.lstrip("+~").partition(".")[0] in SECTIONS:
        return None
    if not all(Path(file).suffix in SUFFIXES for file in files) or Path(argument).is_dir():
        return None
    if equals and (not is_inner_path(name) or UNSAFE.search(name)):
        raise UserError(f"{argument}: {name!r} is no name of a system; use letters and digits")
    if not equals and len(files) > 1:
        raise UserError(f"{argument}: name the system of several files, as in mine={argument}")
    return SystemFiles(name, [Path(file) for file in files])


def distinct_names(files: Sequence[Path]) -> dict[Path, str]:
    """Return names for files of responses: the file's own, or its folder's if it is called
    ``responses``.

    If two names are equal, all get as many parent folders in front as make them distinct.
    """
    parts = {}
    for path in files:
        whole = path.resolve()
        parts[path] = (whole.parent if path.name == RESPONSES else whole.with_suffix("")).parts
    names: dict[Path, str] = {}
    for depth in range(1, max(map(len, parts.values()), default=0)):
        names = {path: UNSAFE.sub("_", "-".join(some[-depth:])) for path, some in parts.items()}
        if len(set(names.values())) == len(names):
            break
    return names


def responses_contender(files: Sequence[Path], name: str) -> Contender:
    """Return the contender of files of responses, one for each seed.

    Raises:
        UserError: a file cannot be read, is listed twice, or is that of an evaluation and has
            changed since it was written.
    """
    for path in files:
        if not path.is_file():
            raise UserError(
                f"{path} does not exist; give a recipe, a run folder, or a file of responses"
                f" ({', '.join(SUFFIXES)})"
            )
        if path.name == RESPONSES and (path.parent / METRICS).is_file():
            check_evaluation(path.parent)
    hashes = tuple(map(sha256, files))
    for path, digest in zip(files, hashes, strict=True):
        if hashes.count(digest) > 1:
            raise UserError(
                f"{name}: {path} has the content of another of its files; give one file for each"
                " run of the system"
            )
    whole = hashes[0] if len(hashes) == 1 else hash_of(list(hashes))
    paths = tuple(str(path.resolve()) for path in files)
    stated = read_statement(files[0])
    return Contender(name, "responses", whole, files=paths, hashes=hashes, stated=stated)


def read_statement(file: Path) -> dict[str, Any]:
    """Read what is stated beside a file of responses: in <its name>.system.yaml, else in
    system.yaml; empty without either.

    Raises:
        UserError: another key than parameters, data and budget, or no plain value.
    """
    candidates = (file.with_suffix(".system.yaml"), file.with_name("system.yaml"))
    path = next((path for path in candidates if path.is_file()), None)
    if path is None:
        return {}
    layer = read_yaml(path)
    for key, value in layer.values.items():
        expected = STATEMENT.get(str(key))
        if expected is None or not isinstance(value, expected) or isinstance(value, bool):
            raise UserError(
                f"{layer.origin.get(key, path)}: {key}: give parameters (a number), data and budget"
                " (texts)"
            )
    return layer.values


def system_contender(option: str) -> Contender:
    """Return the contender of a value of ``--system``, whose program may be started.

    Raises:
        UserError: no name or no command.
    """
    system = parse_system(option)
    digest = hash_of(["system", system.text])
    return Contender(
        system.name, "responses", digest, hashes=(digest,), system=system.text, may_run=True
    )


def check_trusted(grid: Grid) -> None:
    """Check that the contenders of a comparison and their runs import only what the caller has
    allowed.

    A run may import what the recipe of its contender does.

    Raises:
        UserError: a recipe that imports code.
    """
    check_importable(list(grid.metrics), "--metrics")
    for contender in grid.contenders:
        if contender.kind != "responses":
            check_importable(contender.trust.allow(contender.recipes), contender.name)
    for cell in grid.cells():
        if (cell.folder / RECIPE).is_file():
            check_importable(read_recipe(cell.folder, trust=cell.contender.trust), str(cell.folder))


def run_names(groups: Sequence[Mapping[int, Path]]) -> list[str]:
    """Return a name for each group of run folders by seed: their common folder, else what their
    paths begin with.

    ``runs/small/lstm/1`` and ``runs/small/lstm/2`` are ``small/lstm``, ``runs/lstm-1`` and
    ``runs/lstm-2`` are ``lstm`` beside runs of ``runs/transformer``. A single run is named by its
    folder, ``transformer-1`` without the seed. A folder that also has runs of other groups names
    none of them. If two names are equal, each group is named by the path of its first run.
    """
    # links keep their names
    paths = [[os.path.abspath(folder) for folder in group.values()] for group in groups]
    begun = [_start_of(group, folders) for group, folders in zip(groups, paths, strict=True)]
    single = [
        folders[0] if len(folders) == 1 else start
        for folders, start in zip(paths, begun, strict=True)
    ]
    shared = [
        os.path.commonpath(folders) if len(folders) > 1 else start
        for folders, start in zip(paths, begun, strict=True)
    ]
    names = whole = [next(iter(group.values())).as_posix().strip("/") for group in groups]
    for starts in (single, begun, shared):  # the last that serves
        candidates = [display_name(Path(start)) for start in starts]
        own = [
            bool(candidate)
            and candidates.count(candidate) == 1
            and not _has_others(start, folders, paths)
            for candidate, start, folders in zip(candidates, starts, paths, strict=True)
        ]
        names = [
            one if use else other for one, other, use in zip(candidates, names, own, strict=True)
        ]
    return names if len({*names}) == len(names) else whole


def _start_of(group: Mapping[int, Path], folders: Sequence[str]) -> str:
    """Return what the paths of runs begin with; of a single run the path without its seed,
    ``seed-1`` or ``-1``.
    """
    if len(folders) > 1:
        return os.path.commonprefix(folders).rstrip("-_.")  # noqa: RUF071 - names
    seed = next(iter(group))
    return folders[0].removesuffix(f"{os.sep}seed-{seed}").removesuffix(f"-{seed}")


def _has_others(start: str, folders: Sequence[str], paths: Sequence[Sequence[str]]) -> bool:
    """Return whether a folder contains runs of other groups."""
    others = [each for each in paths if each is not folders]
    return any(Path(path).is_relative_to(start) for each in others for path in each)
