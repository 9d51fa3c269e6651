"""Results that [Jain13] prints; a benchmark and size that is absent has no printed result.

The paper gives no result for the 2D Halo of 8 B and 512 B and the 3D Halo of 8 B, where the mapping
has an insignificant effect. Ranges are represented by their lower end.
"""

from __future__ import annotations

from .plan import LARGE, SMALL

Case = tuple[str, str, int]  # benchmark, size, tasks

# Highest RCC of a single prior feature: .91 "for most cases".
SINGLE_RCC: dict[Case, float] = {
    ("2D Halo", "16 KB", SMALL): 0.91,
    ("2D Halo", "4 MB", SMALL): 0.91,
    ("3D Halo", "512 B", SMALL): 0.96,
    ("3D Halo", "16 KB", SMALL): 0.91,
    ("3D Halo", "4 MB", SMALL): 0.91,
    ("Sub A2A", "8 B", SMALL): 0.91,
    ("Sub A2A", "512 B", SMALL): 0.91,
    ("Sub A2A", "16 KB", SMALL): 0.91,
    ("Sub A2A", "4 MB", SMALL): 0.91,
    ("pF3D", "", SMALL): 0.94,  # the sum of dilation over average outliers
    ("pF3D", "", LARGE): 0.52,
}
PF3D_MAX_BYTES_RCC = 0.91

# Best hybrid. In the worst case, the 2D Halo, 16 of 378 pairs are wrong.
WRONG_2D_HALO, TEST_PAIRS = 16, 378
_WORST = 1 - WRONG_2D_HALO / TEST_PAIRS
HYBRID_RCC: dict[Case, float] = {
    ("2D Halo", "16 KB", SMALL): _WORST,
    ("2D Halo", "4 MB", SMALL): _WORST,
    ("3D Halo", "512 B", SMALL): 0.98,
    ("3D Halo", "16 KB", SMALL): 0.98,
    ("3D Halo", "4 MB", SMALL): 0.98,
    ("Sub A2A", "8 B", SMALL): 0.98,
    ("Sub A2A", "512 B", SMALL): 0.98,
    ("Sub A2A", "16 KB", SMALL): 0.98,
    ("Sub A2A", "4 MB", SMALL): 0.98,
    ("Sub A2A", "8 B", LARGE): 0.98,
    ("Sub A2A", "512 B", LARGE): 1.00,
    ("Sub A2A", "16 KB", LARGE): 0.98,
    ("Sub A2A", "4 MB", LARGE): 1.00,
    ("pF3D", "", SMALL): 0.995,
    ("pF3D", "", LARGE): 0.75,
}
HIGHEST_SUB_A2A_RCC = 0.995  # two of 378 pairs wrong, 16,384 tasks
HYBRID_R2: dict[Case, float] = {
    ("2D Halo", "16 KB", SMALL): 0.975,
    ("2D Halo", "4 MB", SMALL): 0.955,
    ("pF3D", "", SMALL): 0.931,
}
# Largest gain in RCC of a hybrid over single features, halos of 65,536 tasks.
LARGE_HALO_GAIN = 0.08
# All benchmarks with 16 KB and 4 MB together, 16,384 tasks.
MIXED_WRONG_PAIRS = 70
# Trained on 16,384 and tested on 65,536 tasks, all benchmarks with 16 KB and 4 MB.
TRANSFER_RCC, TRANSFER_WRONG, TRANSFER_PAIRS = 0.975, 3_200, 126_756
