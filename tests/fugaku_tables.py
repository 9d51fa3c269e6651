"""Tables and job scripts as those of the measurements on Fugaku."""

HEADER = "collective_type,buffer_size,algo_name,median,nnodes,tasks_per_node\n"
JOB = '#PJM -L  "node=2x2x2:torus"\n#PJM --mpi  "rank-map-bynode=YZX"\n'


def write(folder, rows, job=JOB):
    folder.mkdir(exist_ok=True)
    (folder / "jobs").mkdir(exist_ok=True)
    (folder / "jobs" / "2x2x2").write_text(job)
    (folder / "a.aggregated_results_summary.csv").write_text(HEADER + rows)
    return folder
