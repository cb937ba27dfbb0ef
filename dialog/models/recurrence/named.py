"""Encoders and decoders that have the name of their mixer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from dialog.config.components import parameters, settings_class
from dialog.models.recurrence.mixers import MIXERS

T = TypeVar("T")


class WithMixer(Generic[T]):
    """Constructor of a `MixerEncoder` or `MixerDecoder` with one of `MIXERS`.

    The mixer's arguments stand beside the part's own: ``{name: mamba2, layers: 4, state_size: 64}``
    is ``{name: mixer, layers: 4, mixer: {name: mamba2, state_size: 64}}``.
    """

    def __init__(self, part: Callable[..., T], mixer: str) -> None:
        self.part = part
        self.mixer = mixer
        self.Settings = settings_class(part)
        self.__doc__ = f"{inspect.getdoc(MIXERS[mixer])}\n\n{inspect.getdoc(part)}"
        own = inspect.signature(part).parameters
        named = [parameter for key, parameter in own.items() if key != "mixer"]
        arguments = parameters(MIXERS[mixer], mixer)
        self.arguments = [key for key in arguments if key not in MIXERS.runtime]
        named += [arguments[key] for key in self.arguments]
        self.__signature__ = inspect.Signature(named)

    def __call__(self, **arguments: Any) -> T:
        """Build the part and its mixers."""
        of_mixer = {key: arguments.pop(key) for key in self.arguments if key in arguments}
        return self.part(mixer={"name": self.mixer, **of_mixer}, **arguments)
