"""Requests of the service: their fields and limits, and the search that a chat request selects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WithJsonSchema,
)

from dialog.config.components import Component, hint
from dialog.config.schema import GenerationConfig
from dialog.generation.chosen_search import with_candidates
from dialog.serving.replies import RequestError

MOST_TURNS = 200
MOST_RESPONSES = 8
MOST_STOPS = 4
SYSTEM = ("system", "developer")
"""Roles of messages that are ignored: the model was not trained with any."""
MOST_RESPONSE_CHARACTERS = 4096
EMPTY: Sequence[object] = (None, False, 0, "", [], {})
SAMPLING_FIELDS = ("temperature", "top_k", "top_p", "min_p", "typical_p")
NAMED_SEARCHES: Mapping[str, Component] = {
    "greedy": {"name": "greedy"},
    "beam5": {"name": "beam", "width": 5, "candidates": 5},
    "sampling": {"name": "sampling"},
}
CONSTRAINT_FIELDS = ("repetition_penalty", "frequency_penalty")


def check_empty(value: object) -> object:
    """Return the value of an unsupported field.

    Raises:
        ValueError: the value would change the response.
    """
    if value not in EMPTY:
        raise ValueError("unsupported by this model")
    return value


Unsupported = Annotated[Any, AfterValidator(check_empty), WithJsonSchema({"enum": list(EMPTY)})]
"""Field of OpenAI's format that would change the response, but not here."""
Ignored = Annotated[Any, WithJsonSchema({"description": "ignored: it changes no response"})]
"""Field of OpenAI's format that changes no response."""
Uncalled = Annotated[list[Any] | None, WithJsonSchema({"description": "ignored: none is called"})]
"""Tools, which Open WebUI sends with each request. Unless ``tool_choice`` requires one, a model may
answer without them.
"""


class KnownFields(BaseModel):
    """Object in which unknown fields are errors."""

    model_config = ConfigDict(extra="forbid")


class TextPart(KnownFields):
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


class Message(KnownFields):
    """A turn of the user, an earlier response of the model, or instructions, which are ignored."""

    role: Literal["user", "assistant", "system", "developer"]
    content: Annotated[
        list[TextPart], BeforeValidator(parts_of, json_schema_input_type=str | list[TextPart])
    ]
    annotations: Ignored = None
    name: Ignored = None
    audio: Unsupported = None
    function_call: Unsupported = None
    refusal: Unsupported = None
    tool_calls: Unsupported = None

    @property
    def text(self) -> str:
        """The text of the turn."""
        return "".join(part.text for part in self.content)


def check_roles(messages: list[Message]) -> list[Message]:
    """Return messages in which the roles alternate, but for those that are ignored.

    Raises:
        ValueError: they do not, or the last one is not the user's.
    """
    turns = [message for message in messages if message.role not in SYSTEM]
    for number, message in enumerate(turns):
        if message.role != ("user", "assistant")[(len(turns) - 1 - number) % 2]:
            raise ValueError("user and assistant alternate, and the last message is the user's")
    if not turns:
        raise ValueError("give a message of the user")
    return messages


def listed(stops: object) -> object:
    """Return a single stop as a list."""
    return [stops] if isinstance(stops, str) else stops


Stop = Annotated[str, Field(min_length=1, max_length=MOST_RESPONSE_CHARACTERS)]
Stops = Annotated[list[Stop], Field(max_length=MOST_STOPS)]


class StreamOptions(KnownFields):
    """Options of a streamed response."""

    include_usage: bool | None = None
    include_obfuscation: Ignored = None


class TextFormat(KnownFields):
    """The only format of a response."""

    type: Literal["text"]


class SearchFields(KnownFields):
    """Settings of the search by their names here; a field of None is that of the run."""

    n: Annotated[int, Field(ge=1, le=MOST_RESPONSES)] | None = None
    search: Literal["greedy", "beam5", "sampling"] | None = None
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    top_k: Annotated[int, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    min_p: Annotated[float, Field(ge=0, lt=1)] | None = None
    typical_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    repetition_penalty: Annotated[float, Field(ge=0.01, le=10)] | None = None


class ChatRequest(SearchFields):
    """Body of ``POST /v1/chat/completions``: OpenAI's fields, and settings of the search by their
    names here.

    A field that would change the response, but not here, is an error.
    """

    messages: Annotated[
        list[Message], Field(min_length=1, max_length=MOST_TURNS), AfterValidator(check_roles)
    ]
    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    seed: int | None = None
    logprobs: bool | None = None
    stop: Annotated[Stops, BeforeValidator(listed, json_schema_input_type=Stop | Stops)] | None = (
        None
    )

    audio: Unsupported = None
    function_call: Literal["none", "auto"] | None = None
    functions: Uncalled = None
    logit_bias: Unsupported = None
    modalities: list[Literal["text"]] | None = None
    presence_penalty: Unsupported = None
    reasoning_effort: Literal["none"] | None = None
    response_format: TextFormat | None = None
    tool_choice: Literal["none", "auto"] | None = None
    tools: Uncalled = None
    top_logprobs: Unsupported = None
    verbosity: Literal["medium"] | None = None
    web_search_options: Unsupported = None

    metadata: Ignored = None
    parallel_tool_calls: Ignored = None
    prediction: Ignored = None
    prompt_cache_key: Ignored = None
    prompt_cache_retention: Ignored = None
    safety_identifier: Ignored = None
    service_tier: Ignored = None
    store: Ignored = None
    user: Ignored = None

    @property
    def context(self) -> list[str]:
        """The turns that the model answers."""
        return [message.text for message in self.messages if message.role not in SYSTEM]

    @property
    def warnings(self) -> list[str]:
        """Sentences on the messages and tools that are ignored."""
        messages = [
            f"messages.{number}: ignored; the model was not trained with {message.role} messages"
            for number, message in enumerate(self.messages)
            if message.role in SYSTEM
        ]
        tools = [
            f"{name}: ignored; the model was not trained to call {name}"
            for name in ("tools", "functions")
            if getattr(self, name)
        ]
        return messages + tools


class VoteRequest(KnownFields):
    """Body of ``POST /votes``: which of two models' responses to a context is better; ``settings``
    are those of the requests for the responses.
    """

    models: Annotated[list[str], Field(min_length=2, max_length=2)]
    context: Annotated[list[str], Field(min_length=1, max_length=MOST_TURNS)]
    responses: Annotated[
        list[Annotated[str, Field(max_length=MOST_RESPONSE_CHARACTERS)]],
        Field(min_length=2, max_length=2),
    ]
    choice: Literal["a", "b", "tie"]
    settings: Annotated[list[SearchFields], Field(min_length=2, max_length=2)] | None = None
    rater: Annotated[str, Field(max_length=80)] = ""
    chat: Annotated[str, Field(max_length=80)] = ""


class AttentionRequest(KnownFields):
    """Body of ``POST /attention``; without a response, the run's search generates one."""

    model: str | None = None
    context: Annotated[list[str], Field(max_length=MOST_TURNS)]
    response: Annotated[str, Field(max_length=MOST_RESPONSE_CHARACTERS)] | None = None
    format: Literal["json", "html"] = "json"


def selected_search(generation: GenerationConfig, request: SearchFields) -> Component:
    """Return the search of a request with all constraints, as `Responder.respond` takes it.

    That is the run's search, except that ``search`` names another one, ``temperature`` 0 selects
    greedy search, and another ``temperature`` or a truncation of `SAMPLING_FIELDS` selects
    sampling. ``max_tokens`` lowers the run's largest length and never raises it. A beam search
    replaces one that has fewer than ``n`` responses.

    Raises:
        RequestError: a setting of sampling for a search that does not draw.
    """
    section = asdict(generation)
    search = _search(section.pop("search"), request)
    limits = set_fields(request, ("max_tokens", "max_completion_tokens"))
    section["max_length"] = min([section["max_length"], *limits.values()])
    section["min_length"] = min(section["min_length"], section["max_length"])
    return {**search, **section, **set_fields(request, CONSTRAINT_FIELDS)}


def _search(search: Component, request: SearchFields) -> Component:
    chosen = set_fields(request, SAMPLING_FIELDS)
    if request.search is not None:
        search = NAMED_SEARCHES[request.search]
    if chosen and request.search not in (None, "sampling"):
        field = next(iter(chosen))
        raise RequestError(
            400, f"{field}: {request.search} does not draw; leave one of both out", field=field
        )
    if request.temperature == 0:
        search = {"name": "greedy"}
    elif chosen:
        search = {**(search if search["name"] == "sampling" else {"name": "sampling"}), **chosen}
    return search if request.n in (None, 1) else with_candidates(search, request.n)


def set_fields(request: SearchFields, names: Sequence[str]) -> dict[str, Any]:
    """Return the values of the fields that a request sets."""
    return {name: value for name in names if (value := getattr(request, name)) is not None}


def first_error(error: ValidationError, kind: type[BaseModel]) -> RequestError:
    """Return the first error of a request of a kind, with the field that it is about."""
    supported = [name for name, field in kind.model_fields.items() if field.annotation is not Any]
    first: Mapping[str, Any] = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(map(str, first["loc"]))
    message = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "extra_forbidden":
        message = "unknown field" + (hint(place, supported) if len(first["loc"]) == 1 else "")
    return RequestError(400, f"{place}: {message}" if place else message, field=place or None)
