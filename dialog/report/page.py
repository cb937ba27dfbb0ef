"""Self-contained HTML pages: no other file, no network by default, one script at most, allowed by
its hash.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup


def render_page(
    package: str,
    template: str,
    values: dict[str, Any],
    *,
    script: str = "",
    style: str = "",
    framed: Sequence[tuple[str, str]] = (),
    connects: bool = False,
    computes: bool = False,
) -> str:
    """Render a template of a package; texts in `values` are escaped and cannot add elements or
    addresses.

    The template also receives `style`, the style sheet shared by all pages, `policy`, the content
    security policy, and `script`; the policy allows this text and no other script.

    Args:
        package: Package of the files.
        template: File of the package.
        values: Variables of the template.
        script: Text of the only script.
        style: Continues the shared style sheet; the policy then allows no other style, not even a
            style attribute.
        framed: Script and style sheet of each page that it frames; frames inherit the policy.
        connects: Whether scripts may send requests to the server of the page.
        computes: Whether scripts may compile WebAssembly, and run texts of theirs in workers.
    """
    sheet = style_sheet(style)
    codes = [script] if script else []
    sheets = [sheet] if style else []
    policy = security_policy(
        [*codes, *(one for one, _ in framed)],
        [*sheets, *(one for _, one in framed)],
        connects=connects,
        computes=computes,
    )
    shared = {"style": Markup(sheet), "policy": policy, "script": Markup(script)}
    return templates(package).get_template(template).render(**shared, **values)


def style_sheet(style: str) -> str:
    """Return the style sheet shared by all pages, continued by `style`."""
    return (files("dialog.report") / "report.css").read_text(encoding="utf-8") + style


def chat_sources() -> tuple[str, str]:
    """Return the script and the style sheet that pages with a chat share: controls, and the
    attention of a reply.
    """
    return joined("dialog.report", ["chat.js"]), joined("dialog.report", ["chat.css"])


def joined(package: str, names: Sequence[str]) -> str:
    """Return the texts of files of a package, joined."""
    return "".join((files(package) / name).read_text(encoding="utf-8") for name in names)


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


def security_policy(
    scripts: Sequence[str],
    styles: Sequence[str] = (),
    *,
    connects: bool = False,
    computes: bool = False,
) -> str:
    """Return a content security policy that allows these scripts and style sheets, nothing else.

    Without style sheets it allows any inline style. If it `connects`, scripts may send requests to
    the page's server; if it `computes`, they may compile WebAssembly and start workers from texts.
    """
    more = " 'wasm-unsafe-eval' blob:" if computes else ""
    allowed = f"script-src {_digests(scripts)}{more}; " if scripts else ""
    server = "connect-src 'self'; " if connects else ""
    inline = _digests(styles) if styles else "'unsafe-inline'"
    return (
        f"default-src 'none'; {allowed}{server}style-src {inline}; base-uri 'none'; form-action"
        " 'none'"
    )


def _digests(texts: Sequence[str]) -> str:
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()) for text in texts)
    return " ".join(f"'sha256-{digest.decode()}'" for digest in digests)
