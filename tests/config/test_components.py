"""Building objects from {name, arguments}."""

from __future__ import annotations

import collections
import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dialog.config.components import Family, build, hint, name_and_arguments, resolve
from dialog.config.trust import trusted
from dialog.errors import UserError


class Part:
    def __init__(self, *, size: int, width: int = 3, input_size: int = 0) -> None:
        if size < 0:
            raise ValueError(f"size {size} is negative")
        self.size, self.width, self.input_size = size, width, input_size


class Plain:
    def __init__(self) -> None:
        self.size = 0


def with_options(size: int, *rest: int, **options: int) -> tuple[int, int]:
    return size, len(rest) + len(options)


def needs_a_package() -> None:
    raise ModuleNotFoundError("no module named 'extra'; pip install extra")


def typed(
    *, count: int = 1, share: float = 0.0, on: bool = False, word: str = "", some: int | None = None
) -> list[object]:
    return [count, share, on, word, some]


def typed_by_objects(count: object, share: object = 0.0) -> list[object]:
    return [count, share]


# as without the __future__ import
typed_by_objects.__annotations__ = {"count": int, "share": float}

TABLE = Family(
    "part",
    {
        "typed": typed,
        "objects": typed_by_objects,
        "part": Part,
        "plain": Plain,
        "options": with_options,
        "extra": needs_a_package,
    },
    runtime=("input_size", "other"),
)


def refused(component: dict[str, Any], **runtime: object) -> str:
    with pytest.raises(UserError) as caught:
        build(TABLE, component, **runtime)
    return str(caught.value)


def test_builds_with_the_arguments_and_the_defaults() -> None:
    part = build(TABLE, {"name": "part", "size": 5})
    assert (part.size, part.width) == (5, 3)


def test_does_not_change_the_component() -> None:
    component = {"name": "part", "size": 5}
    build(TABLE, component)
    assert component == {"name": "part", "size": 5}


def test_runtime_values_go_to_those_that_take_them() -> None:
    assert build(TABLE, {"name": "part", "size": 5}, input_size=7).input_size == 7
    assert build(TABLE, {"name": "plain"}, input_size=7).size == 0


def test_recipe_cannot_set_a_runtime_value() -> None:
    assert "'input_size' is set by the recipe's other parts" in refused(
        {"name": "part", "size": 1, "input_size": 2}, input_size=7
    )


@pytest.mark.parametrize(
    ("component", "message"),
    [
        ({"name": "prat", "size": 1}, "unknown part 'prat'; did you mean 'part'?"),
        (
            {"name": "zzz"},
            "unknown part 'zzz'; choose from typed, objects, part, plain, options, extra",
        ),
        ({"name": "part", "sizes": 1}, "part: unknown argument 'sizes'; did you mean 'size'?"),
        ({"name": "part", "zzz": 1}, "part: unknown argument 'zzz'; choose from size, width"),
        ({"name": "plain", "size": 1}, "plain: unknown argument 'size'"),
        ({"name": "part"}, "part: missing required argument: size"),
        ({"name": "part", "size": -1}, "part: size -1 is negative"),
        ({"name": "part", "size": "wide"}, "part: size must be int, not 'wide'"),
        ({"name": "part", "size": 2.5}, "part: size must be int, not 2.5"),
        ({"name": "part", "size": None}, "part: size must be int, not None"),
        ({"name": "typed", "count": True}, "typed: count must be int, not True"),
        ({"name": "typed", "share": True}, "typed: share must be float, not True"),
        ({"name": "typed", "share": "1e-3"}, "typed: share must be float, not '1e-3'"),
        ({"name": "typed", "on": 1}, "typed: on must be bool, not 1"),
        ({"name": "typed", "word": 1}, "typed: word must be str, not 1"),
        ({"name": "objects", "count": "1"}, "objects: count must be int, not '1'"),
        ({"name": "extra"}, "extra: no module named 'extra'; pip install extra"),
        ({"size": 1}, "a component needs a name"),
        ({"name": None}, "a component needs a name"),
        ({"name": ["part"]}, "a component needs a name"),
    ],
)
def test_errors_name_the_nearest(component: dict[str, Any], message: str) -> None:
    assert message in refused(component, input_size=7)


def test_hint_offers_no_runtime_value() -> None:
    assert "input_size" not in refused({"name": "part", "size": 1, "input_siz": 2}, input_size=7)


def test_variadic_arguments_are_optional() -> None:
    assert build(TABLE, {"name": "options", "size": 4}) == (4, 0)
    assert "options: unknown argument 'rest'" in refused({"name": "options", "size": 4, "rest": 1})


def test_arguments_of_matching_types() -> None:
    assert build(TABLE, {"name": "typed", "count": 2, "share": 1, "on": True, "word": "x"}) == [
        2,
        1,
        True,
        "x",
        None,
    ]
    assert build(TABLE, {"name": "typed", "some": 3})[-1] == 3
    assert build(TABLE, {"name": "objects", "count": 2, "share": 0.5}) == [2, 0.5]


def test_a_dotted_name_is_imported() -> None:
    assert build(TABLE, trusted({"name": "collections.UserDict"})) == collections.UserDict()


def test_dotted_name_of_a_users_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_lab_of_tests.py").write_text(
        "def Mine(size, input_size=0): return size + input_size\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert (
        build(TABLE, trusted({"name": "my_lab_of_tests.Mine", "size": 2}), input_size=3, other=9)
        == 5
    )
    assert "did you mean 'size'?" in refused(trusted({"name": "my_lab_of_tests.Mine", "siz": 2}))
    monkeypatch.delitem(sys.modules, "my_lab_of_tests")


@pytest.mark.parametrize(
    "name",
    [
        "no_such_package_here.X",
        "collections.NoSuchThing",
        ".",
        "..",
        "a..b",
        ".collections",
        "collections.",
    ],
)
def test_dotted_name_that_cannot_be_imported(name: str) -> None:
    assert f"cannot import {name!r}" in refused(trusted({"name": name}))


def test_module_with_a_syntax_error_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_lab_of_tests.py").write_text("x = = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert "cannot import 'broken_lab_of_tests.X'" in refused(
        trusted({"name": "broken_lab_of_tests.X"})
    )


def test_name_that_cannot_be_called() -> None:
    assert "sys.path cannot be built" in refused(trusted({"name": "sys.path"}))


def test_resolve_checks_and_calls_nothing() -> None:
    called: list[int] = []
    table = Family("counter", {"count": lambda step: called.append(step)}, runtime=("step",))
    make = resolve(table, {"name": "count"}, step=4)
    assert called == []
    make()
    assert called == [4]
    with pytest.raises(UserError, match="count: missing required argument: step"):
        resolve(table, {"name": "count"})


def test_named_splits_name_and_arguments() -> None:
    assert name_and_arguments({"name": "part", "size": 1}) == ("part", {"size": 1})


def test_hint_names_the_nearest_or_all() -> None:
    assert hint("tansformer", ["lstm", "transformer"]) == "; did you mean 'transformer'?"
    assert hint("x", ["lstm", "transformer"]) == "; choose from lstm, transformer"
    assert hint("x", []) == ""


# ------------------------------------------------------------------ settings


@dataclass(frozen=True)
class Sizes:
    size: int
    inner: dict[str, Any] = field(default_factory=lambda: {"name": "part"})
    input_size: int = 1


class Sized:
    Settings = Sizes

    def __init__(self, cell: str, settings: Sizes, *, both: bool = True) -> None:
        self.made = cell, settings, both


def test_fields_of_settings_are_arguments() -> None:
    family = Family("part", {"sized": partial(Sized, "cell")}, runtime=("input_size",))
    assert {
        key: each.default for key, each in family.arguments("sized").items() if key != "size"
    } == {
        "inner": {"name": "part"},
        "both": True,
    }
    part = build(family, {"name": "sized", "size": 2, "both": False}, input_size=7)
    assert part.made == ("cell", Sizes(2, {"name": "part"}, 7), False)
    for component, message in (
        ({"name": "sized"}, "sized: missing required argument: size"),
        ({"name": "sized", "size": "wide"}, "sized: size must be int, not 'wide'"),
        ({"name": "sized", "siz": 2}, "sized: unknown argument 'siz'; did you mean 'size'?"),
        ({"name": "sized", "settings": 2}, "sized: unknown argument 'settings'"),
    ):
        with pytest.raises(UserError) as caught:
            build(family, component)
        assert str(caught.value).startswith(message)
