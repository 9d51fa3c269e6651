/* A ring, a row of pairs, collectives on two communicators, and calls that wait in all ways. */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rank, size, index, flag, done, which[2];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char *out = calloc(1, 1 << 16), *in = calloc(1, 1 << 16);
    double own = rank, sum;
    MPI_Comm row;
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &row);
    MPI_Bcast(out, 100, MPI_BYTE, 0, MPI_COMM_WORLD);
    for (int turn = 0; turn < 20; turn++) {
        MPI_Request both[2];
        MPI_Status states[2];
        MPI_Irecv(in, 5000, MPI_BYTE, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &both[0]);
        MPI_Isend(out, 5000, MPI_BYTE, (rank + 1) % size, 7, MPI_COMM_WORLD, &both[1]);
        if (turn % 4 == 0) MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
        if (turn % 4 == 1)
            for (int i = 0; i < 2; i++) MPI_Waitany(2, both, &index, MPI_STATUS_IGNORE);
        if (turn % 4 == 2)
            for (int left = 2; left > 0; left -= done) MPI_Waitsome(2, both, &done, which, states);
        if (turn % 4 == 3)
            for (flag = 0; !flag;) MPI_Testall(2, both, &flag, MPI_STATUSES_IGNORE);
        MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Sendrecv(out, 300, MPI_BYTE, rank ^ 1, 1, in, 300, MPI_BYTE, rank ^ 1, 1,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Alltoall(out, 64, MPI_BYTE, in, 64, MPI_BYTE, row);
    }
    MPI_Finalize();
    return 0;
}
