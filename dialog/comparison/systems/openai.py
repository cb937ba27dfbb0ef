"""``openai:URL#MODEL``: an OpenAI-compatible endpoint, such as ``dialog serve``.

The turns of a context are chat messages of user and assistant in turn; the last one is the user's.
The key is that of the environment variable OPENAI_API_KEY; it is written nowhere.

Options: ``temperature``, ``seed``, ``max_tokens``, ``parallel`` requests, ``retries``, ``timeout``
in seconds, and ``price=IN/OUT`` per million tokens. ``temperature=none`` and ``seed=none`` leave a
field out, for endpoints that reject it.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Any

import requests

from dialog.comparison.systems.lines import (
    leave,
    messages_of,
    parse_number,
    parse_options,
    read_rows,
    write_line,
)
from dialog.errors import UserError

KEY = "OPENAI_API_KEY"
OPTIONS = (
    "temperature",
    "seed",
    "max_tokens",
    "parallel",
    "retries",
    "timeout",
    "price",
)
TRANSIENT = {408, 409, 425, 429, 500, 502, 503, 504}
"""Statuses after which the request is sent again."""
LONGEST_PAUSE = 60.0
"""Most seconds between two attempts, unless the endpoint asks for more."""
LONGEST_WAIT = 3600.0
"""Most seconds that an endpoint may ask for."""
SIGN_OF_LIFE = 1.0
"""Seconds between two lines while it waits."""


def wait(seconds: float) -> None:
    """Wait, and write a line now and then, so that the time for a response does not run out."""
    while seconds > 0:
        time.sleep(min(seconds, SIGN_OF_LIFE))
        seconds -= SIGN_OF_LIFE
        write_line({"system": {}})


@dataclass
class Endpoint:
    """An endpoint and the settings of its requests.

    Args:
        url: Base URL, to which ``/chat/completions`` is appended.
        model: Name of the model.
        fields: Further fields of each request.
        retries: Attempts after the first one.
        timeout: Seconds for a request.
        pause: Function that waits for a number of seconds.
    """

    url: str
    model: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    retries: int = 8
    timeout: float = 120.0
    pause: Callable[[float], None] = wait
    used: Counter[str] = field(default_factory=Counter)
    """Requests, retries and tokens."""
    answered_by: dict[str, str] = field(default_factory=dict)
    """Model and fingerprint that the endpoint has named."""

    def respond(self, context: Sequence[str]) -> str:
        """Return the response to a context.

        Raises:
            UserError: the endpoint rejects the request, or fails in all attempts.
        """
        body = {"model": self.model, "messages": messages_of(context), **self.fields}
        for attempt in range(self.retries + 1):
            status, content, seconds = self.post(body)
            if status == requests.codes.ok:
                return self.text_of(content)
            if status and status not in TRANSIENT:
                raise UserError(f"{self.url}: {status}: {message_of(content)}")
            if attempt < self.retries:
                self.used["retries"] += 1
                self.pause(max(seconds, min(LONGEST_PAUSE, 2.0**attempt)))
        raise UserError(
            f"{self.url}: failed {self.retries + 1} times, at last with"
            f" {status or 'no reply'}: {message_of(content)}"
        )

    def post(self, body: Mapping[str, Any]) -> tuple[int, Any, float]:
        """Return the status of a request, 0 without a reply; its content; and the seconds that the
        endpoint asks to wait.
        """
        key = os.environ.get(KEY)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.used["requests"] += 1
        try:
            reply = requests.post(
                f"{self.url}/chat/completions",
                json=body,
                headers=headers,
                timeout=self.timeout,
                allow_redirects=False,  # the key is for this endpoint
            )
        except (requests.ConnectionError, requests.Timeout) as error:
            return 0, type(error).__name__, 0.0
        except (requests.RequestException, ValueError) as error:
            raise UserError(f"{self.url}: {type(error).__name__}; check the URL") from error
        try:
            content = reply.json()
        except ValueError:
            content = reply.text
        return reply.status_code, content, retry_seconds(reply.headers.get("Retry-After", ""))

    def text_of(self, content: Any) -> str:
        """Return the text of a reply, and count its tokens."""
        try:
            text = content["choices"][0]["message"]["content"]
        except (KeyError, IndexError, TypeError) as error:
            raise UserError(f"{self.url}: the reply has no choices[0].message.content") from error
        if not isinstance(text, str):
            raise UserError(f"{self.url}: the reply has no text")
        usage = content.get("usage")
        for name in ("prompt_tokens", "completion_tokens"):
            number = usage.get(name) if isinstance(usage, dict) else None
            self.used[name] += number if isinstance(number, int) else 0
        for name in ("model", "system_fingerprint"):
            if isinstance(content.get(name), str):
                self.answered_by[name] = content[name][:200]
        return text


def message_of(content: Any) -> str:
    """Return the message of an error that an endpoint sends."""
    error = content.get("error", content) if isinstance(content, dict) else content
    text = error.get("message", error) if isinstance(error, dict) else error
    key = os.environ.get(KEY)
    return (str(text).replace(key, "...") if key else str(text))[:200]


def retry_seconds(header: str) -> float:
    """Return the seconds of a Retry-After header, given in seconds or as a date; 0 without one."""
    if header.strip().isdecimal():
        return min(float(header), LONGEST_WAIT)
    try:
        seconds = parsedate_to_datetime(header).timestamp() - time.time()
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return min(max(0.0, seconds), LONGEST_WAIT)


def endpoint_of(target: str, words: Sequence[str]) -> tuple[Endpoint, dict[str, str]]:
    """Return the endpoint of ``URL#MODEL`` and its options.

    Raises:
        UserError: no URL, or an invalid option.
    """
    url, _, model = target.partition("#")
    if not url.startswith(("http://", "https://")):
        raise UserError(f"openai:{target}: give openai:URL#MODEL, as in openai:https://host/v1#gpt")
    options = parse_options(words, OPTIONS)
    fields: dict[str, Any] = {}
    if options.get("temperature") != "none":
        fields["temperature"] = parse_number(options, "temperature", 0.0, 0.0)
    if options.get("seed") != "none":
        fields["seed"] = parse_number(options, "seed", 1, 0)
    if "max_tokens" in options:
        fields["max_tokens"] = parse_number(options, "max_tokens", 1, 1)
    endpoint = Endpoint(
        url.rstrip("/").removesuffix("/chat/completions"),
        model,
        fields,
        retries=parse_number(options, "retries", 8, 0),
        timeout=parse_number(options, "timeout", 120.0, 0.001),
    )
    return endpoint, options


def cost_of(used: Mapping[str, int], price: str) -> float:
    """Return the cost of tokens at ``IN/OUT`` per million.

    Raises:
        UserError: no two numbers.
    """
    try:
        per_input, per_output = map(float, price.split("/"))
    except ValueError as error:
        raise UserError(f"price={price}: give IN/OUT per million tokens, as in 0.5/1.5") from error
    cost = used.get("prompt_tokens", 0) * per_input
    cost += used.get("completion_tokens", 0) * per_output
    return cost / 1e6


def answer_rows(
    arguments: Sequence[str],
    turns_of: Callable[[Mapping[str, Any]], Sequence[str]],
    fields_of: Callable[[str], Mapping[str, str]],
) -> None:
    """Answer the lines of standard input, several at a time, in their order.

    Args:
        arguments: URL#MODEL and options.
        turns_of: Returns the turns of a chat for a line.
        fields_of: Returns the fields of the answer for the text of a reply.
    """
    endpoint, options = endpoint_of(arguments[0], arguments[1:])
    parallel = parse_number(options, "parallel", 1, 1)
    if "price" in options:
        cost_of({}, options["price"])
    rows = read_rows()
    try:
        with ThreadPoolExecutor(parallel) as pool:
            while block := list(islice(rows, parallel)):
                texts = pool.map(endpoint.respond, map(turns_of, block))
                for row, text in zip(block, texts, strict=True):
                    write_line({"id": row["id"], **fields_of(text)})
    finally:
        report: dict[str, Any] = {"url": endpoint.url, **endpoint.answered_by, **endpoint.used}
        if "price" in options:
            report["cost"] = cost_of(endpoint.used, options["price"])
        write_line({"system": report})


if __name__ == "__main__":
    try:
        answer_rows(sys.argv[1:], lambda row: row["context"], lambda text: {"response": text})
    except UserError as failure:
        leave(failure)
