"""Pages that need no network, no script and no other file, in the one look of the house."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from dialog.report.terminal import printable


def render(package: str, template: str, values: dict[str, Any]) -> str:
    """A page from a template of a package; texts in `values` are data, none can add an element or an address.

    Besides the values a template has `style`, the sheet that all pages share.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = (files(package) / template).read_text(encoding="utf-8")
    style = Markup((files("dialog.report") / "report.css").read_text(encoding="utf-8"))
    return environment.from_string(text).render(style=style, **values)


def harmless(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """The same JSON with control characters of all its texts, which HTML forbids, shown."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {harmless(key): harmless(item) for key, item in value.items()}
    return [harmless(item) for item in value] if isinstance(value, list | tuple) else value
