"""Self-contained HTML pages: no network, no script, no other file, one style sheet."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from dialog.report.terminal import printable


def render_page(package: str, template: str, values: dict[str, Any]) -> str:
    """Render a template of a package; texts in `values` are escaped and cannot add elements or addresses.

    The template also receives `style`, the style sheet shared by all pages.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = (files(package) / template).read_text(encoding="utf-8")
    style = Markup((files("dialog.report") / "report.css").read_text(encoding="utf-8"))
    return environment.from_string(text).render(style=style, **values)


def printable_json(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Escape the control characters, which HTML forbids, in all texts of a JSON value."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable_json(key): printable_json(item) for key, item in value.items()}
    return [printable_json(item) for item in value] if isinstance(value, list | tuple) else value
