"""Self-contained HTML pages: no network, no other file; one script at most, which the page allows by its hash."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from dialog.report.terminal import printable


def render_page(package: str, template: str, values: dict[str, Any], *, script: str = "") -> str:
    """Render a template of a package; texts in `values` are escaped and cannot add elements or addresses.

    The template also receives `style`, the style sheet shared by all pages, `policy`, the content security policy, and
    `script`, the text of a file of the package; the policy allows this text and no other script.
    """

    def source(name: str) -> str:
        return (files(package) / name).read_text(encoding="utf-8")

    environment = Environment(
        autoescape=True,
        loader=FunctionLoader(source),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    style = Markup((files("dialog.report") / "report.css").read_text(encoding="utf-8"))
    code = source(script) if script else ""
    shared = {"style": style, "policy": security_policy(code), "script": Markup(code)}
    return environment.get_template(template).render(**shared, **values)


def security_policy(script: str) -> str:
    """Return a content security policy that allows inline styles and this script, and nothing else."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    allowed = f"script-src 'sha256-{digest}'; " if script else ""
    return f"default-src 'none'; {allowed}style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def printable_json(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Escape the control characters, which HTML forbids, in all texts of a JSON value."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable_json(key): printable_json(item) for key, item in value.items()}
    return [printable_json(item) for item in value] if isinstance(value, list | tuple) else value
