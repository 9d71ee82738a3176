"""One model of the log losses of a sweep: all sizes, tuned values, seeds and divergences at once.

    ln L = l_s + seed + E(v − u_s) + misfit + noise

`sweep_arrays` has the runs, `cost_shape` what a distance from the optimum costs (E),
`optimum_process` how the optimum u_s moves with size, `surface` the parameters, their priors and
the mode, `surface_noise` and `surface_divergence` its parts, `draws` draws of all of it at a size,
`answers` the values to use. `fitted_sizes` and `tuned_values` say all of it as records, at the
sizes of the sweep and at any size, `optimum_law` writes the law of an optimum down, and
`remedies` what would end a refusal, by runs that are imagined (`imagined_runs`).
"""
