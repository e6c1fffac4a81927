"""The boosting methods on the command line: relaxed-margin, lpboost, adaboost, infoboost."""
