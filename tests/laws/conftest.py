"""The laws can be pointed at a part of your own, see test_models.py."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    for family in ("attention", "encoder", "decoder", "head"):
        parser.addoption(f"--{family}", metavar="YAML", help=f"the laws of this {family} alone, a component in YAML")
