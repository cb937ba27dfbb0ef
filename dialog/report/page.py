"""Self-contained HTML pages: no network, no other file; one script at most, which the page allows by its hash."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from dialog.report.terminal import printable


def render_page(
    package: str, template: str, values: dict[str, Any], *, scripts: Sequence[str] = (), style: str = ""
) -> str:
    """Render a template of a package; texts in `values` are escaped and cannot add elements or addresses.

    The template also receives `style`, the style sheet shared by all pages, `policy`, the content security policy, and
    `script`, the files of the package that are named in `scripts`; the policy allows this text and no other script.

    Args:
        package: Package of the files.
        template: File of the package.
        values: Variables of the template.
        scripts: Files of the package that are joined to one script.
        style: Continues the shared style sheet; the policy then allows no other style, not even a style attribute.
    """
    sheet = (files("dialog.report") / "report.css").read_text(encoding="utf-8") + style
    code = "".join((files(package) / name).read_text(encoding="utf-8") for name in scripts)
    shared = {"style": Markup(sheet), "policy": security_policy(code, sheet if style else ""), "script": Markup(code)}
    return templates(package).get_template(template).render(**shared, **values)


@cache
def templates(package: str) -> Environment:
    """Return the templates of a package; each is compiled once."""
    return Environment(
        autoescape=True,
        loader=FunctionLoader(lambda name: (files(package) / name).read_text(encoding="utf-8")),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def security_policy(script: str, style: str = "") -> str:
    """Return a content security policy that allows this script, this style sheet or any inline style, nothing else."""
    allowed = f"script-src {_digest(script)}; " if script else ""
    styles = _digest(style) if style else "'unsafe-inline'"
    return f"default-src 'none'; {allowed}style-src {styles}; base-uri 'none'; form-action 'none'"


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def printable_json(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Escape the control characters, which HTML forbids, in all texts of a JSON value."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable_json(key): printable_json(item) for key, item in value.items()}
    return [printable_json(item) for item in value] if isinstance(value, list | tuple) else value
