program ring
  use mpi
  implicit none
  integer :: rank, size, error, both(2), state(MPI_STATUS_SIZE), turn, row
  real(8) :: a(1000), b(1000)
  a = 1
  call MPI_INIT(error)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, error)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, size, error)
  call MPI_COMM_SPLIT(MPI_COMM_WORLD, rank / 2, rank, row, error)
  do turn = 1, 15
    call MPI_IRECV(b, 1000, MPI_REAL8, mod(rank + size - 1, size), 3, MPI_COMM_WORLD, both(1), error)
    call MPI_ISEND(a, 1000, MPI_REAL8, mod(rank + 1, size), 3, MPI_COMM_WORLD, both(2), error)
    call MPI_WAITALL(2, both, MPI_STATUSES_IGNORE, error)
    if (mod(rank, 2) == 0) then
      call MPI_SEND(a, 10, MPI_REAL8, rank + 1, 4, MPI_COMM_WORLD, error)
    else
      call MPI_RECV(b, 10, MPI_REAL8, MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, state, error)
    end if
    call MPI_ALLREDUCE(MPI_IN_PLACE, a, 1000, MPI_REAL8, MPI_SUM, row, error)
  end do
  call MPI_FINALIZE(error)
end program
