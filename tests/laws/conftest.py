"""Options that run the laws for your own part; see test_models.py."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    for family in ("attention", "encoder", "decoder", "head"):
        parser.addoption(
            f"--{family}", metavar="YAML", help=f"test only this {family}, a component in YAML"
        )
