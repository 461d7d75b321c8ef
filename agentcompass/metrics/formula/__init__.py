"""Cross-task formulas, exact means, standard errors, intervals and tests: numbers in, numbers out."""
