"""The experiments of Jain et al., SC'13, on simulated samples."""
