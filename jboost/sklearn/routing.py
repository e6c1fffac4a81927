"""Metadata routing of scikit-learn, for the estimators that fit other estimators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn import get_config
from sklearn.utils import _safe_indexing
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import has_fit_parameter

SPLITTER = "cv"  # a parameter of the constructor, so that no estimator can have this name


def router(owner: Any, estimators: Mapping[str, Any], splitter: Any = None) -> MetadataRouter:
    """What `get_metadata_routing` returns: `fit` of the owner takes metadata itself, calls `fit`
    of the estimators, and `split` of the splitter.

    >>> from sklearn import config_context
    >>> from sklearn.linear_model import LogisticRegression
    >>> from jboost.sklearn import MarginThinner
    >>> with config_context(enable_metadata_routing=True):
    ...     inner = LogisticRegression().set_fit_request(sample_weight=True)
    ...     router(MarginThinner(inner), {"inner": inner}).consumes("fit", ["sample_weight"])
    {'sample_weight'}
    """
    found = MetadataRouter(owner=owner).add_self_request(owner)
    to_fit = MethodMapping().add(caller="fit", callee="fit")
    for name, estimator in estimators.items():
        found.add(**{name: estimator}, method_mapping=to_fit)
    if splitter is not None:
        to_split = MethodMapping().add(caller="fit", callee="split")
        found.add(**{SPLITTER: splitter}, method_mapping=to_split)
    return found


def arguments_of_fit(
    owner: Any, estimators: Mapping[str, Any], sample_weight: Any, groups: Any
) -> dict[str, dict[str, Any]]:
    """The keywords of `fit` of each estimator by its name, and those of `split` under SPLITTER.

    With metadata routing they are what the estimators and the splitter request of `sample_weight`
    and `groups`; other metadata, and other names for these two, are not passed on. Without it the
    weights go to all estimators, and the groups to the splitter.

    Raises:
      ValueError: without metadata routing, if there are weights and an estimator takes none.
    """
    if get_config()["enable_metadata_routing"]:
        given = {"sample_weight": sample_weight, "groups": groups}
        given = {name: values for name, values in given.items() if values is not None}
        if not given:  # `process_routing` then returns no mapping
            return {name: {} for name in (*estimators, SPLITTER)}
        routed = process_routing(owner, "fit", **given)
        found = {name: dict(routed[name]["fit"]) for name in estimators}
        return found | {SPLITTER: dict(routed[SPLITTER]["split"]) if SPLITTER in routed else {}}
    for estimator in estimators.values():
        if sample_weight is not None and not has_fit_parameter(estimator, "sample_weight"):
            raise ValueError(
                f"sample_weight is given, and {type(estimator).__name__}.fit does not take it:"
                " leave the classifier out, or let metadata routing pass the weights to the others"
            )
    weighted = {} if sample_weight is None else {"sample_weight": sample_weight}
    split = {} if groups is None else {"groups": groups}
    return {name: dict(weighted) for name in estimators} | {SPLITTER: split}


def at_rows(arguments: Mapping[str, Any], rows: Any) -> dict[str, Any]:
    """The keywords with each array at these rows."""
    return {name: _safe_indexing(values, rows) for name, values in arguments.items()}
