/* Messages of all modes round a ring: persistent, probed, matched probes, synchronous; calls that
 * are counted only. */
#include <mpi.h>

int main(int argc, char **argv) {
    int rank, size, flag, zero = 0, seen[64] = {0}, sizes[1], periods[1] = {1};
    char out[1000] = {0}, in[1000];
    MPI_Request both[2], one;
    MPI_Status status;
    MPI_Message message;
    MPI_Comm ring;
    MPI_Win window;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    sizes[0] = size;
    MPI_Cart_create(MPI_COMM_WORLD, 1, sizes, periods, 0, &ring);
    MPI_Win_create(seen, sizeof seen, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Send_init(out, 1000, MPI_BYTE, next, 1, MPI_COMM_WORLD, &both[0]);
    MPI_Recv_init(in, 1000, MPI_BYTE, last, 1, MPI_COMM_WORLD, &both[1]);
    for (int turn = 0; turn < 10; turn++) {
        MPI_Startall(2, both);
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
        MPI_Isend(out, 300, MPI_BYTE, next, 2, MPI_COMM_WORLD, &one);
        MPI_Probe(MPI_ANY_SOURCE, 2, MPI_COMM_WORLD, &status);
        MPI_Recv(in, 1000, MPI_BYTE, status.MPI_SOURCE, 2, MPI_COMM_WORLD, &status);
        MPI_Wait(&one, &status);
        MPI_Isend(out, 200, MPI_BYTE, next, 3, MPI_COMM_WORLD, &one);
        MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
        MPI_Mrecv(in, 1000, MPI_BYTE, &message, &status);
        MPI_Wait(&one, &status);
        MPI_Issend(out, 10, MPI_BYTE, next, 4, ring, &one);
        MPI_Recv(in, 1000, MPI_BYTE, MPI_ANY_SOURCE, 4, ring, &status);
        MPI_Wait(&one, &status);
        MPI_Neighbor_alltoall(&zero, 0, MPI_INT, seen, 0, MPI_INT, ring);
        MPI_Win_fence(0, window);
        MPI_Put(&zero, 1, MPI_INT, next, 0, 1, MPI_INT, window);
        MPI_Get(&zero, 1, MPI_INT, last, 1, 1, MPI_INT, window);
        MPI_Win_fence(0, window);
        MPI_Ibarrier(MPI_COMM_WORLD, &one);
        for (flag = 0; !flag;) MPI_Test(&one, &flag, &status);
    }
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
