"""Search of a chat: the run's own, or another one, with what the user has set."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dialog.config.components import Component, hint
from dialog.config.compose import group_files, is_path
from dialog.config.schema import GenerationConfig
from dialog.config.trust import NO_TRUST, Trust, check_importable, without_trust
from dialog.config.yaml_layers import parse_value, read_yaml
from dialog.errors import UserError
from dialog.generation.chosen_search import draws, with_candidates, with_next_seed
from dialog.generation.search_shorthand import CONSTRAINTS, filled_section
from dialog.generation.searches.family import SEARCHES
from dialog.runs.folder import RECIPE
from dialog.runs.run import Run

PAIR = re.compile(r"(?:^|\s)([A-Za-z_][\w.]*)\s*=")


@dataclass(frozen=True)
class SearchSettings:
    """Search and constraints of one run in a chat.

    A change returns new settings, checked before they are used.

    Args:
        run: Its recipe has the first search, and its tokenizer the words of constraints.
        chosen: A ``generation`` section: the search with its arguments, and its constraints.
        limits: Constraints that the user has set; they stay when the search changes.
        trust: Which searches of files may be imported.
    """

    run: Run
    chosen: Mapping[str, Any]
    limits: Mapping[str, Any] = field(default_factory=dict)
    trust: Trust = NO_TRUST

    @classmethod
    def of(cls, run: Run, *, trust: Trust = NO_TRUST) -> SearchSettings:
        """Return the settings of the run's recipe."""
        return cls(run, asdict(run.recipe.generation), trust=trust)

    @cached_property
    def component(self) -> Component:
        """The search with all constraints, as `Responder.respond` takes it."""
        section = asdict(filled_section(without_trust({**self.chosen, **self.limits})))
        return {**self.trust.allow(section.pop("search")), **section}

    def change(self, pairs: Mapping[str, Any]) -> SearchSettings:
        """Set arguments of the search and constraints by name.

        An argument that only one other search has selects that search: ``top_p`` selects sampling.

        Raises:
            UserError: unknown name or invalid value.
        """
        settings = self
        for key, value in pairs.items():
            name = key.removeprefix("generation.").removeprefix("search.")
            has_inner = "search" in SEARCHES.arguments(settings.search["name"])
            if name == "name" or (name == "search" and isinstance(value, str)):
                settings = settings.select(str(value))
            elif (
                name == "search" and isinstance(value, Mapping) and not has_inner
            ):  # as on the command line
                settings = settings.change(
                    dict(sorted(value.items(), key=lambda pair: pair[0] != "name"))
                )
            else:
                settings = settings._with(name, value)
        return settings._checked()

    def select(self, name: str) -> SearchSettings:
        """Select a file of ``configs/generation`` by name, one by its path, or a search.

        The recipe's constraints stay, except those that the file sets.

        Raises:
            UserError: unknown name, or without `trust` a file that imports code.
        """
        files = group_files(self.run.folder / RECIPE)["generation"]
        if name in files or is_path(name):
            file = files.get(name, Path(name))
            section = read_yaml(file).values
            check_importable(self.trust.allow(section), str(file))
        elif name in SEARCHES:
            section = {"search": {"name": name}}
        else:
            tune = f"; `python -m dialog tune-generation {self.run.folder}` writes it"
            raise UserError(
                "unknown search"
                f" {name!r}{tune if name == 'tuned' else hint(name, sorted({**files, **SEARCHES}))}"
            )
        recipe = {**asdict(self.run.recipe.generation), "search": {"name": "greedy"}}
        return replace(self, chosen={**recipe, **section})._checked()

    def seeded(self, attempt: int) -> Component:
        """Return the search with another seed for each attempt at one reply; a search without a
        seed as it is.
        """
        return (
            self.component
            if self.repeatable
            else {**self.component, **with_next_seed(self.search, attempt)}
        )

    def n_best(self, count: int) -> SearchSettings:
        """Return settings with at least ``count`` candidates; beam search replaces a search with a
        single candidate.

        Raises:
            UserError: the search cannot return them.
        """
        search = with_candidates(self.search, count)
        section = {key: value for key, value in self.component.items() if key in CONSTRAINTS}
        return SearchSettings(self.run, {**section, "search": search}, trust=self.trust)._checked()

    @property
    def search(self) -> Component:
        """The search without constraints."""
        return {key: value for key, value in self.component.items() if key not in CONSTRAINTS}

    @property
    def repeatable(self) -> bool:
        """True if the search draws nothing: a second attempt gives the same reply."""
        return not draws(self.search)

    def describe(self) -> str:
        """Return the search, its arguments, and the constraints that differ from the schema's
        defaults.
        """
        defaults = asdict(GenerationConfig())
        arguments = {key: value for key, value in self.search.items() if key != "name"}
        limits = {
            key: self.component[key] for key in CONSTRAINTS if self.component[key] != defaults[key]
        }
        return ", ".join(
            [
                self.search["name"],
                *(f"{key}={value}" for key, value in {**arguments, **limits}.items()),
            ]
        )

    def _with(self, name: str, value: object) -> SearchSettings:
        if name in CONSTRAINTS:
            return replace(self, limits={**self.limits, name: value})
        if name in SEARCHES.arguments(self.search["name"]):
            return replace(self, chosen={**self.chosen, "search": {**self.search, name: value}})
        owners = [search for search in SEARCHES if name in SEARCHES.arguments(search)]
        if len(owners) == 1:
            return replace(self, chosen={**self.chosen, "search": {"name": owners[0], name: value}})
        if owners:
            raise UserError(
                f"{self.search['name']} has no {name}; first choose a search: {', '.join(owners)}"
            )
        names = {*CONSTRAINTS, *(key for search in SEARCHES for key in SEARCHES.arguments(search))}
        raise UserError(f"unknown setting {name!r}{hint(name, sorted(names))}")

    def _checked(self) -> SearchSettings:
        """Return these settings if their search can be built."""
        self.run.responder.search(self.component)
        return self


def parse_pairs(text: str) -> dict[str, Any]:
    """Parse ``KEY=VALUE`` pairs; a value reaches to the next ``KEY=``.

    Raises:
        UserError: no pair, or a value that is not YAML.
    """
    matches = list(PAIR.finditer(text))
    if not matches or text[: matches[0].start()].strip():
        raise UserError(f"{text!r} is not KEY=VALUE, such as max_length=20")
    ends = [match.start() for match in matches[1:]] + [len(text)]
    values = [text[match.end() : end].strip() for match, end in zip(matches, ends, strict=True)]
    return {
        match[1]: parse_value(f"{match[1]}={value}", value)
        for match, value in zip(matches, values, strict=True)
    }
