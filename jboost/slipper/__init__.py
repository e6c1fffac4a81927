"""SLIPPER: boosting of rules that abstain. Each rule is grown on one part of the examples and
pruned on the other.

Cohen and Singer 1999, "A Simple, Fast, and Effective Rule Learner" (AAAI-99). D_t are the
`example_weights`, and R_t are the rules. W+ and W- are the weights of the positive and of the
negative examples that a rule covers, and V+ and V- are the same on PruneSet. C_R is the
`confidence` of a rule, and Z_t are the normalisers. In a round the learner of `rules`

1. splits the examples at random, two thirds of the weight of each class to GrowSet, the rest to
  PruneSet;
2. grows a rule from the empty one by the literal of greatest sqrt(W+) - sqrt(W-) on GrowSet, as
  long as that grows;
3. cuts off the last literals, none or all or as many as make V+ exp(-C_R) + V- exp(C_R) - V+ - V-
  least on PruneSet, with C_R of GrowSet;
4. answers with that rule or with the default rule, which covers everything, whichever has the
  smaller 1 - (sqrt(W+) - sqrt(W-))^2 on all examples;

and the booster gives it its confidence on all examples as a vote. Rules speak for the positive
class, the default rule for either.

Where the paper is silent: a literal that nothing on GrowSet meets is no candidate; of equals the
first literal, of the positive ones before the negated, and the shortest rule are taken; a rule that
speaks against the positive class on all examples gives way to the default rule.
"""

from jboost.slipper.booster import Slipper, finish, step
from jboost.slipper.fit import fit, init
from jboost.slipper.rounds import Rounds, choose_rounds
from jboost.slipper.rules import Rules, confidence, rules

__all__ = [
    "Rounds",
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
