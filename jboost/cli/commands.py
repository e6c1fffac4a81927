"""The click commands, generated from the table of options."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from jboost import files, outputs
from jboost.cli import devices, flags, limits, programs
from jboost.cli.boosting import fit as boost_fit
from jboost.cli.combine import fit as combine_fit
from jboost.cli.combine.method import LISTS, split_lists
from jboost.cli.evaluate import evaluate
from jboost.cli.example_weights import fit as example_weights_fit
from jboost.cli.export import FORMATS, NAMES, export
from jboost.cli.l0 import fit as l0_fit
from jboost.cli.option import COMBINE, EXAMPLE_WEIGHTS, L0, PAIR, SLIPPER
from jboost.cli.options import Settings, options_of
from jboost.cli.pair.fit import fit
from jboost.cli.path import path
from jboost.cli.predict import inspect, predict
from jboost.cli.reading import make_reading
from jboost.cli.resolution import read_config, resolve
from jboost.cli.slipper import fit as slipper_fit
from jboost.cli.verify import verify
from jboost.verify import describe

_FLAG_LISTS, _CONFIG_LISTS = "jboost.flag_lists", "jboost.config_lists"
_NOT_VALID = 1  # the exit status of a verification
_WIDTH = 120  # columns of the output if it is not a terminal
_HELP = (
    "Combines classifiers and certifies the result. pair: the linear combination of two classifiers"
    " that misclassifies the least weight. combine: three or more classifiers, by exact pairs. l0,"
    " slipper: a small number of readable rules. example-weights: a distribution over examples."
    " relaxed-margin, lpboost, adaboost, infoboost: boosting of many hypotheses. Choose with"
    " --method."
)
_EPILOG = """\b
Examples:
  jboost fit --data sklearn:breast_cancer --classifiers lda naive-bayes
  jboost fit --data train.csv --label ill --scores model_a model_b --output pair
  jboost fit --data train.csv --label ill --scores model_a model_b model_c --method combine \\
      --strategy coordinate
  jboost fit --data train.csv --label ill --method l0 --max-order 2
  jboost fit --data train.csv --label ill --method slipper --cuts quantiles
  jboost fit --data train.csv --label ill --method example-weights --penalty 0.009 --radius 5
  jboost fit --data train.csv --label ill --method relaxed-margin --nu 0.05 --nu 0.2
  jboost fit --config configs/quickstart.toml --holdout 0.3
  jboost predict pair --data new.csv --output predictions.csv
  jboost evaluate --data train.csv --label ill --folds 10
  jboost path --data train.csv --label ill --method lpboost --holdout 0.3
  jboost inspect pair
  jboost export pair --format sql --output pair.sql
  jboost verify pair --data train.csv
"""


def make_group() -> Any:
    """Returns the `click.Group` of all commands."""
    import click

    group = click.Group(
        "jboost",
        help=_HELP,
        epilog=_EPILOG,
        no_args_is_help=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    group = click.version_option(
        files.package_version("jboost"), prog_name="jboost", message="%(prog)s %(version)s"
    )(group)
    for command in (
        _fit_command(),
        _predict_command(),
        _evaluate_command(),
        _path_command(),
        _inspect_command(),
        _export_command(),
        _verify_command(),
    ):
        group.add_command(command)
    return group


def _fit_command() -> Any:
    def run(**values: Any) -> None:
        settings = _settings(values)
        by_method: dict[str, Callable[[Settings, Any], None]] = {
            PAIR: fit,
            COMBINE: combine_fit.fit,
            L0: l0_fit.fit,
            EXAMPLE_WEIGHTS: example_weights_fit.fit,
            SLIPPER: slipper_fit.fit,
        }
        with (
            limits.of_command(settings.time_limit),
            devices.restored(),
            programs.notice(f"fit {settings.method}"),
        ):
            by_method.get(settings.method, boost_fit.fit)(settings, say)

    return _command_class()(
        "fit",
        callback=run,
        params=[_config_option(), *_options("fit")],
        help=(
            "Fits a model and writes a folder with model.npz, report.json and figures. The figures"
            " are separator.png for pair; margins.png and gap.png for l0, slipper and boosting;"
            " margins.png for combine and example-weights; boundary.png for example-weights with"
            " two columns. Trained base classifiers are stored in base.skops."
        ),
        epilog=(
            "\b\nExamples:\n  jboost fit --data sklearn:breast_cancer\n  jboost fit --data"
            " train.csv --label ill --scores model_a model_b\n  jboost fit --data sklearn:wine"
            " --method adaboost --learner stumps --rounds 50 --holdout 0.3"
        ),
    )


def _evaluate_command() -> Any:

    def run(report: str | None, **values: Any) -> None:
        settings = _settings(values)
        with (
            limits.of_command(settings.time_limit),
            devices.restored(),
            programs.notice(f"evaluate {settings.method}"),
        ):
            evaluate(settings, report, say)

    return _command_class()(
        "evaluate",
        callback=run,
        params=[_config_option(), *_options("evaluate"), _report_option()],
        help=(
            "Cross-validates a method and compares it with simpler ones. pair and combine: each"
            " classifier, majority vote, average and logistic stacking. l0 and slipper: the"
            " majority class. Boosting: scikit-learn's AdaBoost. example-weights: scikit-learn's"
            " SVC."
        ),
        epilog=(
            "\b\nExample:\n  jboost evaluate --data sklearn:breast_cancer --classifiers tree svm"
            " --folds 10"
        ),
    )


def _report_option() -> Any:
    import click

    return click.Option(["--report"], metavar="FILE", help="Write the table as JSON too.")


def _figure_option() -> Any:
    import click

    return click.Option(
        ["--figure"],
        metavar="FILE",
        help="Draw the losses and the numbers of rules: .png, .svg or .pdf.",
    )


def _path_command() -> Any:
    def run(report: str | None, figure: str | None, **values: Any) -> None:
        settings = _settings(values)
        with devices.restored(), programs.notice(f"path {settings.method}"):
            path(settings, report, figure, say, place=flags.place)

    return _command_class()(
        "path",
        callback=run,
        params=[_config_option(), *_options("path"), _report_option(), _figure_option()],
        help=(
            "Fits l0 for several margins, or lpboost for several values of nu, in one program: each"
            " fit starts from the rules of the one before. Shows for each value the proven bounds,"
            " the number of rules and the losses, and writes no model: `jboost fit` does, for the"
            " value that you choose."
        ),
        epilog=(
            "\b\nExamples:\n  jboost path --data train.csv --label ill --max-order 2 --holdout"
            " 0.3\n  jboost path --data train.csv --label ill --method lpboost --nu 0.1 --nu 0.3"
        ),
    )


def _predict_command() -> Any:
    import click

    def run(model_dir: str, data: str, output: str, explain: bool, **values: Any) -> None:
        with programs.notice("predict"):
            rows, notes = predict(
                model_dir, data, output, explain=explain, reading=make_reading(values)
            )
        for note in notes:
            click.echo(f"jboost: note: {note}", err=True)
        if output != "-":
            click.echo(f"{output}: {rows} predictions", err=outputs.is_stream(output))

    return click.Command(
        "predict",
        callback=run,
        params=[
            click.Argument(["model_dir"]),
            *_predict_options(),
            *_options("predict"),
        ],
        help=(
            "Predicts every row of a file with the model in MODEL_DIR. The columns are the score"
            " and the class; for pair and combine also the scores of the classifiers. The"
            " prediction is empty for a blank line and for a line with too few or too many fields;"
            " the column 'note' then gives the reason. The file is read with the format of the"
            " training data."
        ),
        epilog="\b\nExample:\n  jboost predict jboost-out --data new.csv --output predictions.csv",
    )


def _predict_options() -> list[Any]:
    import click

    return [
        click.Option(
            ["--data"],
            required=True,
            metavar="FILE",
            help="Data file with the columns that the model uses; - is the standard input.",
        ),
        click.Option(
            ["--output"],
            default="-",
            show_default=True,
            metavar="FILE",
            help="CSV file for the predictions; - is the standard output.",
        ),
        click.Option(
            ["--explain"],
            is_flag=True,
            help=(
                "For models of l0 and slipper: add a column with the rules that hold for each row."
            ),
        ),
    ]


def _inspect_command() -> Any:
    import click

    def run(model_dir: str) -> None:
        inspect(model_dir, say)

    return click.Command(
        "inspect",
        callback=run,
        params=[click.Argument(["model_dir"])],
        help="Shows the formula or rules, numbers, certificate and status of the model in"
        " MODEL_DIR.",
        epilog="\b\nExample:\n  jboost inspect jboost-out",
    )


def _export_command() -> Any:
    import click

    def run(model_dir: str, kind: str, output: str, **names: str) -> None:
        for note in export(model_dir, kind, output, names=names):
            click.echo(f"jboost: note: {note}", err=True)
        if output != "-":
            click.echo(f"{output}: {kind}", err=outputs.is_stream(output))

    return click.Command(
        "export",
        callback=run,
        params=[
            click.Argument(["model_dir"]),
            *_export_options(),
        ],
        help=(
            "Writes the model in MODEL_DIR as code or data that run without jboost: a Python"
            " module, an SQL query, an ONNX graph, JSON, or readable text. Predictions are the"
            " classes -1 and +1; `jboost inspect` shows their labels."
        ),
        epilog="\b\nExample:\n  jboost export jboost-out --format sql --output model.sql",
    )


def _export_options() -> list[Any]:
    import click

    return [
        click.Option(
            ["--format", "kind"],
            required=True,
            type=click.Choice(FORMATS),
            help="Format of the export; onnx requires jboost[export].",
        ),
        click.Option(
            ["--output"],
            default="-",
            show_default=True,
            metavar="FILE",
            help="File for the export; - is the standard output.",
        ),
        *(
            click.Option(
                [f"--{name}"], default=NAMES[name], show_default=True, metavar="NAME", help=text
            )
            for name, text in (
                ("table", "Table from which the query of --format sql reads."),
                ("score", "Column of scores that the query of --format sql adds."),
                ("prediction", "Column of classes that the query of --format sql adds."),
            )
        ),
    ]


def _verify_command() -> Any:
    import click

    def run(model: str, data: str, **options: Any) -> None:
        verification = verify(model, data, **options)
        say(describe(verification))
        if not verification.valid:
            sys.exit(_NOT_VALID)

    return click.Command(
        "verify",
        callback=run,
        params=[
            click.Argument(["model"]),
            *_verify_options(),
        ],
        help=(
            "Recomputes the certificate of MODEL, a file of jboost.files.save or a folder of jboost"
            " fit, from its arrays and its data in exact rational arithmetic. Of the folders of"
            " jboost fit this is for pair and combine with --scores, and for lpboost and"
            " relaxed-margin with --learner stumps or monomials, of a hard or soft margin, and for"
            " l0 with rules of one or two literals: others hold no certificate that can be checked,"
            " and are not valid here. Of these three the features are made from the data by the"
            " stored model, and the rows must be those of the fit. The exit status is 0 if all"
            " claims are proven, 1 if not, and 2 if a file cannot be read. The file"
            " jboost/verify.py does it alone, with NumPy only: python verify.py MODEL FILE."
        ),
        epilog="\b\nExample:\n  jboost verify pair --data train.csv",
    )


def _verify_options() -> list[Any]:
    import click

    columns = (
        ("--label", "The column of labels; that of the fit by default."),
        ("--weights", "The column of weights; that of the fit by default."),
    )
    return [
        click.Option(
            ["--data"],
            required=True,
            metavar="FILE",
            help=(
                "The data of the fit: any file that it takes, or an .npz file of arrays by name."
                " Rows that the fit left out or held out are left out here, too."
            ),
        ),
        *(click.Option([name], metavar="COLUMN", help=text) for name, text in columns),
        click.Option(
            ["--max-points"],
            type=click.IntRange(min=1),
            metavar="N",
            help=(
                "The most rows whose lines (of two scores) or planes (of three) are all tried: 6000"
                " and 60 by default. The time grows with their square and cube."
            ),
        ),
        click.Option(
            ["--max-nodes"],
            type=click.IntRange(min=1),
            metavar="N",
            help=(
                "The most nodes of the search for the best rule of --learner monomials, 100,000 by"
                " default, which take about 10 s."
            ),
        ),
    ]


def say(content: Any) -> None:
    """Prints text or a rich renderable on the standard output."""
    import rich.console

    width = None if sys.stdout.isatty() else _WIDTH
    rich.console.Console(highlight=False, markup=False, width=width).print(
        content, soft_wrap=isinstance(content, str)
    )


def _command_class() -> Any:
    """Returns the click class of commands with options of two or more names (`LISTS`).

    An option of click has a fixed number of values. The class therefore passes the first two names
    to click and stores the full list in the context, from which `_settings` restores it.
    """
    import click

    class ListCommand(click.Command):
        def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
            rest, context.meta[_FLAG_LISTS] = split_lists(arguments)
            return super().parse_args(context, rest)

    return ListCommand


def _settings(values: dict[str, Any]) -> Any:
    import click
    from click.core import ParameterSource

    context = click.get_current_context()
    sources = {_FLAG_LISTS: ParameterSource.COMMANDLINE, _CONFIG_LISTS: ParameterSource.DEFAULT_MAP}
    for lists, source in sources.items():
        values |= {
            name: names
            for name, names in context.meta.get(lists, {}).items()
            if context.get_parameter_source(name) is source
        }
    is_flag = {
        name: context.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in values
    }
    return resolve({name: value for name, value in values.items() if name != "config"}, is_flag)


def _config_option() -> Any:
    import click

    def read(context: click.Context, parameter: click.Parameter, path: str | None) -> None:
        if path is not None:
            config = read_config(path)
            lists = {
                name: tuple(config[name])
                for name in (flag[2:] for flag in LISTS)
                if len(config.get(name, ())) > 2
            }
            context.meta[_CONFIG_LISTS], context.meta[flags.CONFIG_FILE] = lists, path
            context.default_map = config | {name: names[:2] for name, names in lists.items()}

    return click.Option(
        ["--config"],
        callback=read,
        expose_value=False,
        is_eager=True,
        metavar="FILE",
        help="TOML file with any of these options; flags override it.",
    )


def _options(command: str) -> list[Any]:
    return [flags.make(option) for option in options_of(command)]
