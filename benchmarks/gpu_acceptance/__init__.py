"""Acceptance of the GPU path on one card, within 20 minutes.

    python -m benchmarks.gpu_acceptance --minutes 20 --out DIR [--parts PART …] [--device DEVICE]

| part | content |
|---|---|
| card | versions, clocks, measured rates of matrix products and copies, Triton, one CUDA graph |
| correctness | the GPU tests; workloads × optimisers × precisions against float64 on the CPU; graph against eager; packs of 1, 4 and 36 runs |
| divergence | runs that diverge or are pruned, and the step that is recorded anew: other runs stay as they are |
| memory | predicted memory against what training takes; memory after it |
| oom | a pack that does not fit, want of memory during capture, a card that is nearly full |
| resume | SIGTERM and SIGKILL in mid-pack; time to write the checkpoints of 36 runs of width 4096 |
| killed | one study, killed in the middle and resumed |
| optuna | share of the time that a TPE study of small runs spends on steps |
| speed | all widths of `studies/metz_full.py` against the card's memory bandwidth, an ordinary loop and single CUDA graphs |
| real | `studies/metz_full.py` with widths 16 to 256 and 3,000 steps, by `extrap study run` |

`DIR/gpu.json` is written after every row, `DIR/gpu.html` at the end. A later call with other parts
adds to the same file, so the parts may be run in several calls. A part whose usual time is longer
than what is left of `--minutes` is not started. After an error the other parts run in a new process. `--parts` without a name
writes the page only.

Exit code: 0 if no row failed, 1 if one did, 2 for wrong usage, 3 without a CUDA device.

`--device pretended` runs every part, tiny, on the pretended device (`benchmarks/pretended_cuda`);
`--device cpu` runs those that make sense there. Neither says anything about a card: the file says
so, and speeds are not judged.

Requirements, from a checkout, nothing installed: Python 3.12, torch 2.11 with CUDA and Triton,
numpy, scipy, scikit-learn, pandas, pyarrow, psutil and rich. For the rest carry wheels along:

* `killed`, `optuna`, `real`: optuna 5.0, alembic, sqlalchemy, greenlet, mako, colorlog, tqdm,
  pyyaml, packaging, typing-extensions; and click for the command `extrap`
* `real` and the page: jinja2, markupsafe, matplotlib, pillow, seaborn, statsmodels, patsy,
  formulaic
* the tests: pytest, pytest-timeout, hypothesis

Where a package is missing, the part that needs it fails, the tests are not measured, or the page
is not written; everything else runs.
"""  # noqa: E501  (rows of a table)
