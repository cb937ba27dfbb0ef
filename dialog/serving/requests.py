"""Requests of the service: their fields and limits, and the search that a chat request selects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from dialog.config.components import Component
from dialog.config.schema import GenerationConfig
from dialog.errors import UserError
from dialog.generation.chosen_search import has_candidates, with_candidates

MOST_TURNS, MOST_RESPONSES = 200, 8
UNSUPPORTED: Mapping[str, Sequence[object]] = {
    **dict.fromkeys(("audio", "functions", "logit_bias", "logprobs", "presence_penalty", "stop", "tools"), ()),
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
    "response_format": ({"type": "text"},),
    "tool_choice": ("none", "auto"),
    "top_logprobs": (),
}
"""Fields of OpenAI's format that would change the response, but not here, and their values that would not change it."""
SAMPLING_FIELDS = ("temperature", "top_p")


class TextPart(BaseModel):
    """A piece of a message."""

    type: Literal["text"]
    text: str


def parts_of(content: object) -> object:
    """Return a text as a list of one part.

    Raises:
        ValueError: the content is neither a text nor a list.
    """
    if isinstance(content, str):
        return [TextPart(type="text", text=content)]
    if not isinstance(content, list):
        raise ValueError("give a text or a list of parts of type text")
    return content


class Message(BaseModel):
    """A turn of the user or an earlier response of the model."""

    role: Literal["user", "assistant"]
    content: Annotated[list[TextPart], BeforeValidator(parts_of, json_schema_input_type=str | list[TextPart])]

    @property
    def text(self) -> str:
        """The text of the turn."""
        return "".join(part.text for part in self.content)


class StreamOptions(BaseModel):
    """Options of a streamed response."""

    include_usage: bool | None = None


class ChatRequest(BaseModel):
    """Body of ``POST /v1/chat/completions``.

    Fields of OpenAI's format that change no response are ignored, those of `UNSUPPORTED` are errors.
    """

    model_config = ConfigDict(extra="allow")

    messages: Annotated[list[Message], Field(min_length=1, max_length=MOST_TURNS)]
    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: Annotated[int, Field(ge=1, le=MOST_RESPONSES)] | None = None
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: int | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None

    @model_validator(mode="after")
    def _check(self) -> ChatRequest:
        for field, harmless in UNSUPPORTED.items():
            value = (self.model_extra or {}).get(field)
            if value and value not in harmless:
                raise ValueError(f"{field} is not supported by this model")
        for number, message in enumerate(self.messages):
            if message.role != ("user", "assistant")[(len(self.messages) - 1 - number) % 2]:
                raise ValueError("messages: user and assistant alternate, and the last message is the user's")
        if self.stream and (self.n or 1) > 1:
            raise ValueError("n: a streamed response is a single one")
        return self

    @property
    def context(self) -> list[str]:
        """The turns that the model answers."""
        return [message.text for message in self.messages]


class AttentionRequest(BaseModel):
    """Body of ``POST /attention``; without a response, the run's search generates one."""

    model_config = ConfigDict(extra="forbid")

    context: Annotated[list[str], Field(max_length=MOST_TURNS)]
    response: str | None = None
    format: Literal["json", "html"] = "json"


def selected_search(generation: GenerationConfig, request: ChatRequest) -> Component:
    """Return the search of a request with all constraints, as `Responder.respond` takes it.

    That is the run's search, except that ``temperature`` 0 selects greedy search, and another ``temperature`` or a
    ``top_p`` selects sampling. ``max_tokens`` lowers the run's largest length and never raises it.

    Raises:
        UserError: a search that returns fewer than ``n`` responses.
    """
    section = asdict(generation)
    search = _search(section.pop("search"), request)
    limits = [limit for limit in (request.max_tokens, request.max_completion_tokens) if limit is not None]
    section["max_length"] = min([section["max_length"], *limits])
    section["min_length"] = min(section["min_length"], section["max_length"])
    if request.frequency_penalty is not None:
        section["frequency_penalty"] = request.frequency_penalty
    return {**search, **section}


def _search(search: Component, request: ChatRequest) -> Component:
    if request.temperature == 0:
        search = {"name": "greedy"}
    elif request.temperature is not None or request.top_p is not None:
        chosen = {name: value for name in SAMPLING_FIELDS if (value := getattr(request, name)) is not None}
        search = {**(search if search["name"] == "sampling" else {"name": "sampling"}), **chosen}
    if request.n is None or request.n == 1:
        return search
    if not has_candidates(search):
        raise UserError(f"n: {search['name']} search returns one response; set temperature above 0 to draw several")
    return with_candidates(search, request.n)


def first_error(error: ValidationError) -> tuple[str, str]:
    """Return the message of the first error of a request, and the field that it is about, or "" for several."""
    first: Mapping[str, Any] = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(map(str, first["loc"]))
    message = str(first["msg"]).removeprefix("Value error, ")
    return f"{field}: {message}" if field else message, field
