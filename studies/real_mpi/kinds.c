/* Programs of the usual kinds: kinds KIND BYTES TURNS. Prints the seconds of its loop.
 *
 * halo       six faces of a periodic block of ranks, all at once
 * transpose  MPI_Alltoall in rows of ranks, then in columns
 * wavefront  planes sweep over a grid of ranks from two opposite corners
 * graph      an irregular graph: neighbours and amounts differ from rank to rank
 * allreduce  the library's own; ring and doubling: the same by messages of ours
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, PLANES = 8 };
static int rank, size, nbytes;
static char *out, *in;
static MPI_Comm grid, row, column;

static void exchange(int n, const int peers[], const int amounts[]) {
    MPI_Request both[2 * MOST];
    for (int i = 0; i < n; i++)
        MPI_Irecv(in + (size_t)i * nbytes, amounts[i], MPI_BYTE, peers[i], 0, grid, &both[i]);
    for (int i = 0; i < n; i++)
        MPI_Isend(out + (size_t)i * nbytes, amounts[i], MPI_BYTE, peers[i], 0, grid, &both[n + i]);
    MPI_Waitall(2 * n, both, MPI_STATUSES_IGNORE);
}

static void halo(void) {
    int peers[6], amounts[6];
    for (int d = 0; d < 3; d++) MPI_Cart_shift(grid, d, 1, &peers[2 * d], &peers[2 * d + 1]);
    for (int i = 0; i < 6; i++) amounts[i] = nbytes;
    exchange(6, peers, amounts);
}

static void transpose(void) {
    MPI_Alltoall(out, nbytes, MPI_BYTE, in, nbytes, MPI_BYTE, row);
    MPI_Alltoall(out, nbytes, MPI_BYTE, in, nbytes, MPI_BYTE, column);
}

static void wavefront(void) {
    for (int way = 1; way >= -1; way -= 2) {
        int before[2], after[2];
        for (int d = 0; d < 2; d++) MPI_Cart_shift(grid, d, way, &before[d], &after[d]);
        for (int plane = 0; plane < PLANES; plane++) {
            for (int d = 0; d < 2; d++)
                MPI_Recv(in, nbytes, MPI_BYTE, before[d], d, grid, MPI_STATUS_IGNORE);
            for (int d = 0; d < 2; d++) MPI_Send(out, nbytes, MPI_BYTE, after[d], d, grid);
        }
    }
}

static void graph(void) {
    int peers[MOST], amounts[MOST], n = 0;
    for (int a = 0; a < size; a++)
        for (int b = a + 1; b < size; b++) {
            unsigned mixed = (unsigned)(a * 40503 + b * 9176 + 77) * 2654435761u >> 8;
            if (mixed % (unsigned)size >= 4 || (a != rank && b != rank) || n == MOST) continue;
            amounts[n] = 1 + (int)(mixed / 64 % 97) * (nbytes / 97);
            peers[n++] = a == rank ? b : a;
        }
    exchange(n, peers, amounts);
}

static void shift(int to, int from, int amount) {
    MPI_Sendrecv(out, amount, MPI_BYTE, to, 0, in, amount, MPI_BYTE, from, 0, grid,
                 MPI_STATUS_IGNORE);
}

static void ring(void) {
    for (int step = 0; step < 2 * (size - 1); step++)
        shift((rank + 1) % size, (rank + size - 1) % size, nbytes / size);
}

static void doubling(void) {
    for (int far = 1; far < size; far *= 2) shift(rank ^ far, rank ^ far, nbytes);
}

static void allreduce(void) {
    MPI_Allreduce(out, in, nbytes / 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static const struct { const char *name; int dimensions, periodic; void (*turn)(void); } kinds[] = {
    {"halo", 3, 1, halo}, {"transpose", 2, 0, transpose}, {"wavefront", 2, 0, wavefront},
    {"graph", 1, 0, graph}, {"allreduce", 1, 0, allreduce}, {"ring", 1, 0, ring},
    {"doubling", 1, 0, doubling},
};

int main(int argc, char **argv) {
    int which = 0, n_kinds = sizeof kinds / sizeof kinds[0];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    while (which < n_kinds && argc == 4 && strcmp(kinds[which].name, argv[1])) which++;
    if (argc != 4 || which == n_kinds) MPI_Abort(MPI_COMM_WORLD, 2);
    nbytes = atoi(argv[2]);
    out = calloc((size_t)(size + MOST), (size_t)nbytes);
    in = calloc((size_t)(size + MOST), (size_t)nbytes);
    int sizes[3] = {0}, periods[3], keep[2] = {0, 1};
    for (int d = 0; d < 3; d++) periods[d] = kinds[which].periodic;
    MPI_Dims_create(size, kinds[which].dimensions, sizes);
    MPI_Cart_create(MPI_COMM_WORLD, kinds[which].dimensions, sizes, periods, 0, &grid);
    if (kinds[which].dimensions == 2) {
        MPI_Cart_sub(grid, keep, &row);
        keep[0] = 1, keep[1] = 0;
        MPI_Cart_sub(grid, keep, &column);
    }
    kinds[which].turn();
    MPI_Barrier(MPI_COMM_WORLD);
    double began = MPI_Wtime(), own, longest;
    for (int turn = 0; turn < atoi(argv[3]); turn++) kinds[which].turn();
    own = MPI_Wtime() - began;
    MPI_Reduce(&own, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("seconds %.6f\n", longest);
    MPI_Finalize();
    return 0;
}
