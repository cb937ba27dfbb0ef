"""A page in a real browser: headless Chromium runs its script and a test's steps."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "google-chrome"))), None
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
STEPS = """
<script>
const problems = [];
addEventListener("error", (event) => problems.push(event.message));
addEventListener("securitypolicyviolation", (event) => problems.push(event.violatedDirective));
addEventListener("load", () => setTimeout(() => {{
  const all = (selector) => [...document.querySelectorAll(selector)];
  const one = (selector, place = 0) => all(selector)[place];
  const shown = (element) => Boolean(element && element.getClientRects().length);
  const pick = (select, value) => {{
    select.value = value;
    select.dispatchEvent(new Event("change", {{ bubbles: true }}));
  }};
  const labelled = (text) => all("label").find((label) => label.textContent.includes(text)).querySelector("input");
  const press = (element, key) => element.dispatchEvent(new KeyboardEvent("keydown", {{ key, bubbles: true }}));
  let result;
  try {{ result = (() => {{ {steps} }})(); }} catch (error) {{ problems.push(String(error)); }}
  const report = document.createElement("pre");
  report.id = "report";
  report.textContent = JSON.stringify({{ result: result ?? null, problems }});
  document.body.append(report);
}}, 50));
</script>
"""


def run_in_chromium(page: str, steps: str, folder: Path, *options: str) -> Any:
    """Return the value that `steps` return on a page; the page's script runs first, under its own
    policy.
    """
    path = folder / "page.html"
    policy = re.search(r'<meta http-equiv="Content-Security-Policy" content="[^"]*">', page)
    assert policy is not None
    script = STEPS.format(steps=steps)
    # a policy holds for what follows
    path.write_text(page.replace(policy[0], script + policy[0]), encoding="utf-8")
    assert CHROMIUM is not None
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=2000",
        *options,
    ]
    done = subprocess.run(
        [*command, f"--user-data-dir={folder / 'profile'}", "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )
    report = re.search(r'<pre id="report">(.*?)</pre>', done.stdout, re.DOTALL)
    assert report is not None, done.stderr[-2000:]
    content = json.loads(unescape(report[1]))
    assert content["problems"] == []
    return content["result"]
