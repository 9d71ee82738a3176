"""The questions, a folder for each.

* `sweep` — the main one: best values and loss of a larger run, and whether it is on course.
* `comparison` — does a change of recipe survive at a larger size?
* `batch_size` — critical batch sizes and gradient noise scales.
* `allocation` — a compute budget split between parameters and tokens.
* `sensitivity`, `cascade`, `selection` — fixed values ranked, a small model before a large one,
  training examples chosen.
* `best_values` — the law of a table of the best value of each size.
* `landing` — where does a run's loss end, from its log and its learning rates?
* `coordinates` — does every layer compute and move alike at every width?

Files bear the same names in each: `spec` is what a study file says, `page` makes the blocks,
`charts` its figures, `study` the kind of study, `command` the commands, `flags` what its flags
mean; the others are numbers, functions of `Runs` and arrays. `ANALYSIS` in a folder says what it
adds to the rest of the package (`extrap.registry`).
"""

FOLDERS = (
    *("comparison", "allocation", "batch_size", "sensitivity", "cascade", "selection"),
    *("landing", "best_values", "coordinates", "sweep"),
)
"""A new analysis is a folder and its name here. A study file that defines several records is of
the kind that comes first; the help lists commands in this order."""
