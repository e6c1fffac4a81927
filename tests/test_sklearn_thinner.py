"""What `MarginThinner` takes for the output of a member."""

import numpy as np
import pytest
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

import jboost.sklearn as js


def noisy(num_rows=80):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(num_rows, 3))
    return X, (X[:, 0] + 0.3 * generator.normal(size=num_rows) > 0).astype(int)


@pytest.mark.parametrize(
    "ensemble",
    [
        AdaBoostClassifier(LinearSVC(), n_estimators=5, random_state=0),
        BaggingClassifier(LinearSVC(), n_estimators=5, random_state=0),
        VotingClassifier([("one", LinearSVC(C=0.01)), ("two", LinearSVC())]),
    ],
)
def test_members_without_probabilities_vote_alike_under_all_names_of_classes(ensemble):
    X, codes = noisy()
    scores = []
    for names in ([-1, 1], [0, 1], [3, 7], [-7, -3], ["h", "s"]):
        y = np.asarray(names)[codes]
        thin = js.MarginThinner(ensemble.fit(X, y), nu=0.3, calibration=None).fit(X, y)
        assert (thin.predict(X) == y).mean() > 0.85
        scores.append(thin.decision_function(X))
    np.testing.assert_allclose(scores, np.broadcast_to(scores[0], (5, len(X))), atol=1e-6)


def test_a_member_that_knows_one_class_votes_for_it():
    X, y = noisy()
    y = np.where(np.arange(80) < 2, "rare", "usual")
    ensemble = BaggingClassifier(KNeighborsClassifier(1), 10, random_state=0).fit(X, y)
    sizes = {len(one.classes_) for one in ensemble.estimators_}
    assert sizes == {1, 2}
    thin = js.MarginThinner(ensemble, nu=0.3, calibration=None).fit(X, y)
    assert (thin.predict(X) == y).all()


def test_members_that_all_know_one_class_are_refused():
    X, y = noisy()
    forest = RandomForestClassifier(2, random_state=0).fit(X, y)
    forest.estimators_ = [one.fit(X, np.zeros(80)) for one in forest.estimators_]
    with pytest.raises(ValueError, match="the members of estimator know the classes"):
        js.MarginThinner(forest).fit(X, y)


def test_where_no_member_votes_the_majority_class_is_predicted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    for second in (20, 40):
        y = np.arange(60) < second  # nothing that the rows tell
        forest = RandomForestClassifier(5, max_depth=1, random_state=0).fit(
            X[::-1], rng.permuted(y)
        )
        thin = js.MarginThinner(forest, nu=0.05, random_state=0).fit(X, y)
        assert len(thin.kept_) == 0
        assert (thin.predict(X) == (second == 40)).all()
        np.testing.assert_allclose(thin.predict_proba(X)[:, 1], second / 60)
