"""The format of a text file: its encoding, separator, decimal sign and comments, as given or as
detected from its first lines."""

from __future__ import annotations

import codecs
import csv
import dataclasses
import functools
import io
import itertools
import math
import re
from collections.abc import Sequence

# The spellings of a missing value: those of pandas, and the "?" of the UCI repository. They are
# compared without case.
MISSING = (
    *("", "NA", "N/A", "#NA", "#N/A", "#N/A N/A", "<NA>", "NaN", "-NaN", "null", "None", "?"),
    *("1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
DECIMALS = (".", ",")
# in order of preference if several fit
_SEPARATORS = (",", ";", "\t", "|", " ")
_WORDS = {"\\t": "\t", "tab": "\t", "space": " ", "comma": ",", "semicolon": ";"}
_NAMES = {"\t": "tab", " ": "space"}
_NUM_SNIFFED = 200  # the number of records that the detection uses
_NUM_BYTES = 1 << 20  # the number of bytes that the detection reads
_ENOUGH = 0.5  # the share of records that a separator must divide into equally many fields
_EXCEL = re.compile(r"sep=(.)")  # a line before the names that defines the separator for Excel
_BLANKS = " '\u00a0\u202f\u2019"  # thousands separators other than point and comma
_COMMA_DECIMAL = re.compile(
    rf"[+-]?([0-9]+,[0-9]+|[0-9]{{1,3}}([.{_BLANKS}][0-9]{{3}})+,[0-9]+)([eE][+-]?[0-9]+)?"
)
_POINT_DECIMAL = re.compile(
    rf"[+-]?([0-9]*\.[0-9]+|[0-9]{{1,3}}([,{_BLANKS}][0-9]{{3}})+\.[0-9]+)([eE][+-]?[0-9]+)?"
)
# Numbers such as 1,200, which may have a thousands separator or three decimals. They do not show
# the decimal sign.
_GROUPED = re.compile(r"[+-]?[1-9][0-9]{0,2}([,.][0-9]{3})+")


@dataclasses.dataclass(frozen=True)
class Reading:
    """Options for reading a data file. None means that the option is detected from the file, or has
    its default.

    Args:
      separator: one character, or "tab" or "space".
      decimal: "." or ",".
      comment: the prefix of comment lines, which are left out.
      encoding: a Python encoding, such as utf-8, utf-16, cp1252, latin-1.
      missing_values: the spellings of a missing value in addition to the empty field, compared
        without case. They replace `MISSING` and the single "-" among numbers. They also apply to
        the label, unlike `MISSING`.
      ignore: columns that are left out.
      id: a column with identifiers of the rows. It is not a feature.
      categorical: columns that are categories, whatever their values.
      dates: columns of dates, which become days since the first date.
      positive: the label value that becomes +1; all others become -1.
    """

    separator: str | None = None
    decimal: str | None = None
    comment: str | None = None
    encoding: str | None = None
    missing_values: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    id: str | None = None
    categorical: tuple[str, ...] = ()
    dates: tuple[str, ...] = ()
    positive: str | None = None

    def __post_init__(self) -> None:
        separator = self.separator
        if separator is not None:
            separator = _WORDS.get(separator.lower(), separator)
            if (
                len(separator) != 1
                or not separator.isascii()
                or separator.isalnum()
                or separator in '"\n\r'
            ):
                raise ValueError(
                    f"separator is {self.separator!r}: one character such as , ; | is expected, or"
                    " tab, or space"
                )
            object.__setattr__(self, "separator", separator)
        if self.decimal is not None and self.decimal not in DECIMALS:
            raise ValueError(f"decimal is {self.decimal!r}: . or , is expected")
        if self.comment == "":
            raise ValueError(
                "comment is empty: what comment lines begin with is expected, such as #"
            )
        if self.encoding is not None:
            try:
                b"a".decode(self.encoding)
            except UnicodeError:
                pass  # a known one, of more bytes than one
            except LookupError:
                known = "utf-8, utf-16, cp1252, latin-1, ..."
                raise ValueError(
                    f"encoding is {self.encoding!r}, which Python does not know: {known} are"
                    " expected"
                ) from None

    @functools.cached_property
    def missing(self) -> frozenset[str]:
        """The spellings of a missing value in lower case; the empty field is always one."""
        values = MISSING if self.missing_values is None else self.missing_values
        return frozenset(value.strip().lower() for value in ("", *values))

    def describe(self) -> dict[str, str | None]:
        """The options as text, for reports."""
        return {
            "separator": self.separator and _NAMES.get(self.separator, self.separator),
            "decimal": self.decimal,
            "comment": self.comment,
            "encoding": self.encoding,
        }


def decode(
    data: bytes, source: str, encoding: str | None, likely: str | None = None
) -> tuple[bytes, str]:
    """Converts a text file to UTF-8 with line feeds as line ends and without a byte order mark.
    Returns the bytes and the original encoding.

    Args:
      data: the bytes of the file.
      source: the name of the file in messages.
      encoding: the encoding; None to detect it.
      likely: the encoding to try if none is detected and the file is not UTF-8.

    Raises:
      ValueError: with the line and the character, if a byte is not valid in the encoding.
    """
    known = encoding or _sniff_encoding(data, likely)
    if codecs.lookup(known).name == "utf-8":
        data = data.removeprefix(codecs.BOM_UTF8)
        if not data.isascii():
            _check_bytes(data, source, known, encoding)
    else:
        data = _check_bytes(data, source, known, encoding).removeprefix("\ufeff").encode()
    if b"\0" in data:
        line = data[: data.index(b"\0")].count(b"\n") + 1
        raise ValueError(
            f"{source}: line {line} holds a NUL character, which no text file does: save it as"
            " text, or name its --encoding"
        )
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
        data = data if b"\n" in data else data.replace(b"\r", b"\n")
    return data, known


def _sniff_encoding(data: bytes, likely: str | None) -> str:
    """The encoding by the byte order mark, or UTF-16 if zeros alternate as in UTF-16 text that is
    mostly ASCII; else UTF-8."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    head = data[:1000]
    even, odd = head[::2].count(0), head[1::2].count(0)
    if even + odd > len(head) / 4:
        return "utf-16-be" if even > odd else "utf-16-le"
    if likely is None or data.isascii():
        return "utf-8"
    try:
        data.decode()
    except UnicodeDecodeError:
        return likely
    return "utf-8"


def _check_bytes(data: bytes, source: str, encoding: str, given: str | None) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        before = (
            data[: error.start]
            .decode(encoding, errors="replace")
            .replace("\r\n", "\n")
            .replace("\r", "\n")
        )
        line, character = before.count("\n") + 1, len(before) - before.rfind("\n")
        wrong = (
            f"line {line}, character {character}: the byte 0x{data[error.start]:02x} is not"
            f" {encoding.upper()}"
        )
        remedy = (
            "name another --encoding"
            if given
            else "name the encoding, as in --encoding cp1252 or --encoding latin-1"
        )
        raise ValueError(f"{source}: {wrong}: {remedy}, or save it in UTF-8") from None


def sniff(data: bytes, given: Reading, default: str, decimal: str | None = None) -> Reading:
    """The options for reading a text file. Options that are not given are detected from the first
    records.

    Args:
      data: the bytes from `decode`.
      given: the given options.
      default: the separator that the name of the file suggests.
      decimal: the decimal sign if none is detected; None for ".".
    """
    head = data[:_NUM_BYTES].decode(errors="ignore")
    whole = head if len(data) <= _NUM_BYTES else head[: head.rfind("\n") + 1]
    lines = whole.split("\n")[: 2 * _NUM_SNIFFED]
    first = next((line for line in lines if line.strip()), "")
    separator, candidates = (
        given.separator,
        [default, *(one for one in _SEPARATORS if one != default)],
    )
    excel = _EXCEL.fullmatch(first.strip())
    if separator is None and excel is not None:
        separator = excel[1]
    comment = given.comment or _sniff_comment(
        [line for line in lines if line.strip()], separator, candidates
    )
    kept = [
        line
        for line in lines
        if line.strip() and not (comment and line.startswith(comment)) and not is_excel_line(line)
    ]
    if separator is None:
        separator = _sniff_separator(kept, candidates)
    if given.decimal is None:
        decimal = _sniff_decimal(split_fields(kept, separator)[1:], decimal, separator)
    return dataclasses.replace(
        given, separator=separator, comment=comment, decimal=given.decimal or decimal
    )


def is_excel_line(line: str) -> bool:
    """Whether a line defines the separator for Excel, and so is not a record."""
    return _EXCEL.fullmatch(line.strip()) is not None


def split_fields(lines: Sequence[str], separator: str) -> list[list[str]]:
    """The fields of the first records, for detection. Invalid CSV does not raise an error."""
    rows = csv.reader(
        io.StringIO("\n".join(lines)), delimiter=separator, skipinitialspace=separator == " "
    )
    found: list[list[str]] = []
    try:
        for row in rows:
            found.append(row)
            if len(found) > _NUM_SNIFFED:
                break
    except csv.Error:
        pass
    return found


def _sniff_comment(
    lines: Sequence[str], separator: str | None, candidates: Sequence[str]
) -> str | None:
    """The prefix of comments, # or ##, if the file begins with one. The last such line may contain
    the column names after a #."""
    marked = list(itertools.takewhile(lambda line: line.startswith("#"), lines))
    if not marked or len(marked) == len(lines):
        return "#" if marked else None
    separator = separator or _sniff_separator(lines[len(marked) - 1 :], candidates)
    last, first_row = (
        split_fields([marked[-1]], separator)[0],
        split_fields([lines[len(marked)]], separator)[0],
    )
    are_names = (
        len(last) == len(first_row) > 1
        and not any(map(_is_number, last))
        and any(map(_is_number, first_row))
    )
    others = marked[:-1]
    if not are_names or not all(line.startswith("##") for line in others):
        return "#"
    return "##" if others else None


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text.replace(",", ".")))
    except ValueError:
        return False


def _sniff_separator(lines: Sequence[str], candidates: Sequence[str]) -> str:
    """The separator that divides most records into as many fields as the first record, or into one
    more, as files of R have. Of equal ones, the one with most fields is taken."""
    scores = []
    for preference, separator in enumerate(candidates):
        rows = split_fields(lines, separator)
        width = len(rows[0]) if rows else 1
        share = sum(len(row) in (width, width + 1) for row in rows) / max(len(rows), 1)
        scores.append(
            (width > 1 and share > _ENOUGH, separator != " ", round(share, 2), width, -preference)
        )
    best = max(scores)
    return candidates[scores.index(best)] if best[0] else candidates[0]


def _sniff_decimal(rows: Sequence[Sequence[str]], default: str | None, separator: str) -> str:
    """The decimal sign: a comma if some numbers have one and none has a point; a point in the
    opposite case; else the default, or a point without a default. If the only such numbers are like
    1,100 and the separator is a semicolon, it is a comma, because programs use semicolons where the
    comma is the decimal sign."""
    cells = [cell.strip().rstrip("%").rstrip() for row in rows for cell in row]
    grouped = [cell for cell in cells if _GROUPED.fullmatch(cell)]
    cells = [cell for cell in cells if not _GROUPED.fullmatch(cell)]
    commas, points = (
        any(form.fullmatch(cell) for cell in cells) for form in (_COMMA_DECIMAL, _POINT_DECIMAL)
    )
    if commas != points:
        return "," if commas else "."
    looks_decimal = separator == ";" and not commas and any("," in cell for cell in grouped)
    is_plain = all("." not in cell and cell.count(",") < 2 for cell in grouped)
    return default or ("," if looks_decimal and is_plain else ".")
