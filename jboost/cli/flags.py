"""The options of the table as options of click, and where their values are given."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from jboost.cli.option import Option

CONFIG_FILE = "jboost.config_file"  # the key of its path in the `meta` of the context


def place(name: str) -> str:
    """Returns where the value of an option is given: its flag, or its key in the configuration
    file.
    """
    import click
    from click.core import ParameterSource

    context = click.get_current_context()
    if context.get_parameter_source(name) is ParameterSource.DEFAULT_MAP:
        return f"{name} in {context.meta[CONFIG_FILE]}"
    return "--" + name.replace("_", "-")


def make(option: Option) -> Any:
    """Returns the option of click."""
    import click

    flag = "--" + option.name.replace("_", "-")
    if option.kind is bool:
        return click.Option(
            [f"{flag}/--no-{flag[2:]}", *option.flags], default=option.default, help=option.help
        )
    kind: Any = option.kind
    if isinstance(option.kind, tuple):
        kind = click.Choice(option.kind)
    elif option.kind is int:
        low, high = (None if bound is None else int(bound) for bound in (option.low, option.high))
        kind = click.IntRange(low, high, min_open=option.low_open, max_open=option.high_open)
        kind.name = "integer"  # in messages
        kind = _number_or_word(kind, option.words) if option.words else kind
    elif option.kind is float:
        kind = _finite_number(option)
        kind = _number_or_word(kind, option.words, option.refused) if option.words else kind
    is_list = option.num_values < 0
    return click.Option(
        [flag],
        type=kind,
        nargs=1 if is_list else option.num_values,
        multiple=is_list,
        default=option.default,
        show_default=option.default is not None,
        metavar=option.metavar,
        help=option.help,
    )


def _finite_number(option: Option) -> Any:
    """Returns the click type of the finite numbers in the range of an option.

    `click.FloatRange` alone accepts NaN and infinity.
    """
    import click

    class FiniteNumber(click.FloatRange):
        name = "number"

        def convert(
            self, value: Any, parameter: click.Parameter | None, context: click.Context | None
        ) -> Any:
            number = super().convert(value, parameter, context)
            if not math.isfinite(number):
                self.fail(f"{number} is not a finite number", parameter, context)
            return number

    return FiniteNumber(
        option.low, option.high, min_open=option.low_open, max_open=option.high_open
    )


def _number_or_word(
    numbers: Any, words: tuple[str, ...], refused: Mapping[str, str] | None = None
) -> Any:
    """Returns the click type that accepts the strings `words` and the values of `numbers`.

    `refused` has the messages for other strings.
    """
    import click

    class NumberOrWord(click.ParamType):
        name = "number"

        def convert(
            self, value: Any, parameter: click.Parameter | None, context: click.Context | None
        ) -> Any:
            reason = (refused or {}).get(value)
            if reason is not None and parameter is not None and parameter.name is not None:
                where = place(parameter.name)
                self.fail(f"{reason}: '{value}' is given by {where}", parameter, context)
            if value in words:
                return value
            if not _is_number(value):
                expected = f"expected a number or {' or '.join(words)}"
                self.fail(
                    f"'{value}' is not a valid {numbers.name}: {expected}", parameter, context
                )
            return numbers.convert(value, parameter, context)

    return NumberOrWord()


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
