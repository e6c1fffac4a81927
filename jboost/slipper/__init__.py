"""SLIPPER: boosting of rules that abstain. Each rule is grown on one part of the examples and
pruned on the other.

Cohen and Singer 1999, "A Simple, Fast, and Effective Rule Learner" (AAAI-99). D_t are the
`example_weights`, and R_t are the rules. W+ and W- are the weights of the positive and of the
negative examples that a rule covers, and V+ and V- are the same on PruneSet. C_R is the
`confidence` of a rule, and Z_t are the normalisers. In a round the learner of `rules`

1. splits the examples at random, two thirds of the weight of each class to GrowSet, the rest to
  PruneSet;
2. grows a rule, which is empty at first: it adds the literal of greatest sqrt(W+) - sqrt(W-) on
  GrowSet, as long as that value increases;
3. removes none, some or all of the last literals, so that V+ exp(-C_R) + V- exp(C_R) - V+ - V- is
  least on PruneSet, with C_R of GrowSet;
4. proposes that rule or the default rule, which covers everything: the one of smaller
  1 - (sqrt(W+) - sqrt(W-))^2 on all examples;

and the vote that the booster gives it is its confidence on all examples. Rules predict the positive
class, and the default rule predicts either class.

Where the paper specifies nothing: a literal that holds for no covered example of GrowSet is not
added. Ties go to the first literal, with attributes before their negations, and to the shortest
rule. A rule that predicts the negative class on all examples is replaced by the default rule.
"""

from jboost.slipper.booster import Slipper, finish, step
from jboost.slipper.fit import fit, init
from jboost.slipper.rounds import Rounds, RoundsState, choose_rounds
from jboost.slipper.rules import Rules, confidence, rules

__all__ = [
    "Rounds",
    "RoundsState",
    "Rules",
    "Slipper",
    "choose_rounds",
    "confidence",
    "finish",
    "fit",
    "init",
    "rules",
    "step",
]
