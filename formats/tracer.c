/* Records what an MPI program sends, rank by rank, without a change of the program.
 *
 * Built as a shared library by the MPI compiler of the machine and loaded before the program
 * (LD_PRELOAD). Each call of MPI is passed on to the library by its profiling name; what matters of
 * it goes to the file TORUSCAST_TRACE/rank-N.trace as records of 32 bytes, a block at a time while
 * the program runs, so that a program that is killed leaves what it had. C, C++ and Fortran
 * programs (mpif.h, use mpi, use mpi_f08) call the functions below.
 *
 * The reader is formats/tracer.py; `struct record` stands there as a NumPy dtype.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <mpi.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum kind { SEND = 1, RECEIVE, COLLECTIVE, COMMUNICATOR, BLOCKS, MARK, LEFT_OUT, END, DATA };
enum operation {
    BARRIER = 1, BCAST, REDUCE, ALLREDUCE, GATHER, SCATTER, ALLGATHER, ALLTOALL, REDUCE_SCATTER, SCAN
};

struct record {
    uint8_t kind, operation;
    uint16_t flags; /* 1: synchronous send, 2: intercommunicator, 4: blocks follow */
    int32_t peer;   /* rank in MPI_COMM_WORLD: receiver, sender or root; -1 for none */
    int32_t communicator, tag;
    uint64_t nbytes, nanoseconds;
};

/* ---- the file ---- */

enum { HELD = 2048 };
static struct record held[HELD];
static int n_held, file = -1, world_rank, depth_of_init;
static uint64_t began, in_mpi, flushed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* A Fortran binding may call the C one: only the outer call is recorded. */
static __thread int inside;

/* Reading the clock is most of what a record costs: a record takes the time last read. */
static __thread uint64_t latest;
static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return latest = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void flush_held(void) {
    const char *from = (const char *)held;
    size_t left = (size_t)n_held * sizeof held[0];
    while (file >= 0 && left > 0) {
        ssize_t done = write(file, from, left);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) { /* A full disk ends the trace, not the program. */
            close(file);
            file = -1;
            return;
        }
        from += done;
        left -= (size_t)done;
    }
    n_held = 0;
    flushed = now();
}

static void put(struct record r) {
    if (file < 0) return;
    r.nanoseconds = latest - began;
    held[n_held++] = r;
    if (n_held == HELD || r.nanoseconds + began - flushed > 1000000000u) flush_held();
}

static void put_data(const void *data, size_t size) {
    for (size_t at = 0; at < size; at += sizeof(struct record)) {
        size_t part = size - at < sizeof(struct record) ? size - at : sizeof(struct record);
        if (file < 0) return;
        memset(&held[n_held], 0, sizeof held[0]);
        memcpy(&held[n_held], (const char *)data + at, part);
        if (++n_held == HELD) flush_held();
    }
}

/* ---- communicators: a number, and the world rank of each of their ranks ---- */

struct communicator {
    int number, size, inter;
    int32_t *world; /* of the remote group in an intercommunicator */
};
static int keyval = MPI_KEYVAL_INVALID, n_communicators;
static MPI_Group world_group;

static struct communicator *enter(MPI_Comm comm) {
    struct communicator *c = calloc(1, sizeof *c);
    MPI_Group group;
    PMPI_Comm_test_inter(comm, &c->inter);
    if (c->inter) PMPI_Comm_remote_group(comm, &group);
    else PMPI_Comm_group(comm, &group);
    PMPI_Group_size(group, &c->size);
    int *own = malloc((size_t)(c->size + 1) * sizeof *own);
    int *world = malloc((size_t)(c->size + 1) * sizeof *world);
    for (int i = 0; i < c->size; i++) own[i] = i;
    PMPI_Group_translate_ranks(group, c->size, own, world_group, world);
    PMPI_Group_free(&group);
    free(own);
    c->world = world;
    c->number = n_communicators++;
    put((struct record){.kind = COMMUNICATOR, .flags = c->inter ? 2 : 0,
                        .communicator = c->number, .nbytes = (uint64_t)c->size});
    put_data(world, (size_t)c->size * sizeof *world);
    PMPI_Comm_set_attr(comm, keyval, c);
    return c;
}

static struct communicator *known(MPI_Comm comm) {
    struct communicator *c;
    int found;
    PMPI_Comm_get_attr(comm, keyval, &c, &found);
    return found ? c : enter(comm);
}

static int32_t world_of(const struct communicator *c, int rank) {
    return rank >= 0 && rank < c->size ? c->world[rank] : -1;
}

static uint64_t bytes_of(MPI_Aint count, MPI_Datatype type) {
    MPI_Count size;
    if (count <= 0 || type == MPI_DATATYPE_NULL) return 0;
    PMPI_Type_size_x(type, &size);
    return (uint64_t)count * (uint64_t)size;
}

/* ---- requests of receives and of persistent messages ---- */

struct request {
    MPI_Request handle;
    struct communicator *communicator;
    struct record send; /* of a persistent send */
    uint8_t state;      /* 0 free, 1 receive, 2 persistent receive, 3 persistent send, 4 removed */
};
static struct request *table;
static size_t table_size, n_entries;

static size_t place_of(MPI_Request handle) {
    uintptr_t key = 0;
    memcpy(&key, &handle, sizeof handle < sizeof key ? sizeof handle : sizeof key);
    return (size_t)((key * 0x9E3779B97F4A7C15u) >> 17) & (table_size - 1);
}

static struct request *request_of(MPI_Request handle) {
    if (!table_size) return NULL;
    for (size_t at = place_of(handle);; at = (at + 1) & (table_size - 1)) {
        if (table[at].state == 0) return NULL;
        if (table[at].state != 4 && table[at].handle == handle) return &table[at];
    }
}

static void insert(struct request entry) {
    if (2 * (n_entries + 1) > table_size) {
        struct request *old = table;
        size_t old_size = table_size;
        size_t live = 0;
        for (size_t i = 0; i < old_size; i++) live += old[i].state && old[i].state != 4;
        table_size = 1024;
        while (table_size < 4 * (live + 1)) table_size *= 2;
        table = calloc(table_size, sizeof *table);
        n_entries = 0;
        for (size_t i = 0; i < old_size; i++)
            if (old[i].state && old[i].state != 4) insert(old[i]);
        free(old);
    }
    size_t at = place_of(entry.handle);
    while (table[at].state && table[at].state != 4) at = (at + 1) & (table_size - 1);
    if (table[at].state == 0) n_entries++;
    table[at] = entry;
}

/* ---- what is recorded ---- */

static void sent(int dest, int tag, MPI_Comm comm, uint64_t nbytes, int synchronous) {
    if (dest == MPI_PROC_NULL) return;
    struct communicator *c = known(comm);
    put((struct record){.kind = SEND, .flags = (uint16_t)(synchronous | (c->inter ? 2 : 0)),
                        .peer = world_of(c, dest), .communicator = c->number, .tag = tag,
                        .nbytes = nbytes});
}

static void received(struct communicator *c, const MPI_Status *status) {
    MPI_Count nbytes;
    int cancelled;
    if (status->MPI_SOURCE == MPI_PROC_NULL || status->MPI_SOURCE == MPI_ANY_SOURCE) return;
    PMPI_Test_cancelled(status, &cancelled);
    if (cancelled) return;
    PMPI_Get_elements_x((MPI_Status *)status, MPI_BYTE, &nbytes);
    put((struct record){.kind = RECEIVE, .flags = c->inter ? 2 : 0,
                        .peer = world_of(c, status->MPI_SOURCE), .communicator = c->number,
                        .tag = status->MPI_TAG, .nbytes = nbytes < 0 ? 0 : (uint64_t)nbytes});
}

static void completed(MPI_Request handle, const MPI_Status *status) {
    struct request *r = handle == MPI_REQUEST_NULL ? NULL : request_of(handle);
    if (!r) return;
    if (r->state != 3) received(r->communicator, status);
    if (r->state == 1) r->state = 4;
}

static void started(MPI_Request handle) {
    struct request *r = request_of(handle);
    if (r && r->state == 3) put(r->send);
}

static void collective(int operation, int root, MPI_Comm comm, uint64_t nbytes) {
    struct communicator *c = known(comm);
    put((struct record){.kind = COLLECTIVE, .operation = (uint8_t)operation,
                        .flags = c->inter ? 2 : 0, .peer = root < 0 ? -1 : world_of(c, root),
                        .communicator = c->number, .nbytes = nbytes});
}

static void blocks(MPI_Comm comm, const int counts[], const MPI_Datatype *types, MPI_Datatype type) {
    struct communicator *c = known(comm);
    uint64_t *own = malloc((size_t)(c->size + 1) * sizeof *own), total = 0;
    for (int i = 0; i < c->size; i++)
        total += own[i] = bytes_of(counts[i], types ? types[i] : type);
    put((struct record){.kind = COLLECTIVE, .operation = ALLTOALL,
                        .flags = (uint16_t)(4 | (c->inter ? 2 : 0)), .peer = -1,
                        .communicator = c->number, .nbytes = total});
    put_data(own, (size_t)c->size * sizeof *own);
    free(own);
}

/* Calls that are counted, but not recorded. */
#define LEFT                                                                                        \
    X(Put) X(Get) X(Accumulate) X(Get_accumulate) X(Fetch_and_op) X(Compare_and_swap) X(Rput)       \
    X(Rget) X(Raccumulate) X(Neighbor_allgather) X(Neighbor_allgatherv) X(Neighbor_alltoall)        \
    X(Neighbor_alltoallv) X(Neighbor_alltoallw)
enum left {
#define X(name) LEFT_##name,
    LEFT
#undef X
        N_LEFT
};
static uint64_t left_out[N_LEFT];

/* RECORDED wraps a call: pass it on, then record it, and count the time inside of MPI. */
#define RECORDED(call, what)                                                                        \
    do {                                                                                            \
        if (inside || file < 0) return call;                                                        \
        inside = 1;                                                                                 \
        uint64_t start = now();                                                                     \
        int code = call;                                                                            \
        uint64_t spent = now() - start;                                                             \
        pthread_mutex_lock(&lock);                                                                  \
        if (code == MPI_SUCCESS) { what; }                                                          \
        in_mpi += spent;                                                                            \
        pthread_mutex_unlock(&lock);                                                                \
        inside = 0;                                                                                 \
        return code;                                                                                \
    } while (0)
/* A send is recorded before the call: what it waits for came before. */
#define RECORDED_FIRST(call, what)                                                                  \
    do {                                                                                            \
        if (inside || file < 0) return call;                                                        \
        inside = 1;                                                                                 \
        uint64_t start = now();                                                                     \
        pthread_mutex_lock(&lock);                                                                  \
        what;                                                                                       \
        pthread_mutex_unlock(&lock);                                                                \
        int code = call;                                                                            \
        pthread_mutex_lock(&lock);                                                                  \
        in_mpi += now() - start;                                                                    \
        pthread_mutex_unlock(&lock);                                                                \
        inside = 0;                                                                                 \
        return code;                                                                                \
    } while (0)

/* ---- begin and end ---- */

static void begin(void) {
    const char *folder = getenv("TORUSCAST_TRACE");
    char path[4096], version[MPI_MAX_LIBRARY_VERSION_STRING];
    struct {
        char magic[8];
        int32_t rank, size;
        uint64_t epoch;
        char library[40];
    } head;
    struct timespec t;
    int length;
    if (!folder || file >= 0) return;
    PMPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    PMPI_Comm_group(MPI_COMM_WORLD, &world_group);
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &keyval, NULL);
    if (snprintf(path, sizeof path, "%s/rank-%d.trace", folder, world_rank) >= (int)sizeof path)
        return;
    file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file < 0) {
        fprintf(stderr, "toruscast trace: %s: %s\n", path, strerror(errno));
        return;
    }
    memset(&head, 0, sizeof head);
    memcpy(head.magic, "TCTRACE1", 8);
    head.rank = world_rank;
    PMPI_Comm_size(MPI_COMM_WORLD, &head.size);
    clock_gettime(CLOCK_REALTIME, &t);
    head.epoch = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    PMPI_Get_library_version(version, &length);
    snprintf(head.library, sizeof head.library, "%.39s", version);
    began = flushed = now();
    put_data(&head, sizeof head);
    known(MPI_COMM_WORLD);
    known(MPI_COMM_SELF);
}

static void end(void) {
    now();
    static const char *const names[] = {
#define X(name) #name,
        LEFT
#undef X
    };
    for (int i = 0; i < N_LEFT; i++) {
        if (!left_out[i]) continue;
        char name[32] = "MPI_";
        strncat(name, names[i], sizeof name - 5);
        put((struct record){.kind = LEFT_OUT, .nbytes = left_out[i]});
        put_data(name, sizeof name);
    }
    put((struct record){.kind = END, .peer = -1, .nbytes = in_mpi});
    flush_held();
    if (file >= 0) close(file);
    file = -1;
}

int MPI_Init(int *argc, char ***argv) {
    inside++;
    int code = PMPI_Init(argc, argv);
    inside--;
    if (code == MPI_SUCCESS && !depth_of_init++) begin();
    return code;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    inside++;
    int code = PMPI_Init_thread(argc, argv, required, provided);
    inside--;
    if (code == MPI_SUCCESS && !depth_of_init++) begin();
    return code;
}

int MPI_Finalize(void) {
    pthread_mutex_lock(&lock);
    end();
    pthread_mutex_unlock(&lock);
    return PMPI_Finalize();
}

int MPI_Pcontrol(const int level, ...) {
    now();
    pthread_mutex_lock(&lock);
    put((struct record){.kind = MARK, .peer = -1, .tag = level});
    pthread_mutex_unlock(&lock);
    return MPI_SUCCESS;
}

/* ---- messages ---- */

#define SENDS                                                                                       \
    X(Send, 0) X(Ssend, 1) X(Bsend, 0) X(Rsend, 0)
#define X(name, synchronous)                                                                        \
    int MPI_##name(const void *buf, int n, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {   \
        RECORDED_FIRST(PMPI_##name(buf, n, type, dest, tag, comm),                                  \
                       sent(dest, tag, comm, bytes_of(n, type), synchronous));                      \
    }
SENDS
#undef X
#define X(name, synchronous)                                                                        \
    int MPI_I##name(const void *buf, int n, MPI_Datatype type, int dest, int tag, MPI_Comm comm,    \
                    MPI_Request *request) {                                                         \
        RECORDED_FIRST(PMPI_I##name(buf, n, type, dest, tag, comm, request),                        \
                       sent(dest, tag, comm, bytes_of(n, type), synchronous));                      \
    }
X(send, 0) X(ssend, 1) X(bsend, 0) X(rsend, 0)
#undef X

static void persistent(int dest, int tag, MPI_Comm comm, uint64_t nbytes, MPI_Request handle,
                       int synchronous) {
    struct communicator *c = known(comm);
    if (dest == MPI_PROC_NULL) return;
    insert((struct request){.handle = handle, .communicator = c, .state = 3,
                            .send = {.kind = SEND, .flags = (uint16_t)(synchronous | (c->inter ? 2 : 0)),
                                     .peer = world_of(c, dest), .communicator = c->number,
                                     .tag = tag, .nbytes = nbytes}});
}

#define X(name, synchronous)                                                                        \
    int MPI_##name##_init(const void *buf, int n, MPI_Datatype type, int dest, int tag,             \
                          MPI_Comm comm, MPI_Request *request) {                                    \
        RECORDED(PMPI_##name##_init(buf, n, type, dest, tag, comm, request),                        \
                 persistent(dest, tag, comm, bytes_of(n, type), *request, synchronous));            \
    }
SENDS
#undef X

int MPI_Recv_init(void *buf, int n, MPI_Datatype type, int source, int tag, MPI_Comm comm,
                  MPI_Request *request) {
    RECORDED(PMPI_Recv_init(buf, n, type, source, tag, comm, request),
             insert((struct request){.handle = *request, .communicator = known(comm), .state = 2}));
}

int MPI_Start(MPI_Request *request) {
    RECORDED_FIRST(PMPI_Start(request), started(*request));
}

int MPI_Startall(int n, MPI_Request requests[]) {
    RECORDED_FIRST(PMPI_Startall(n, requests), for (int i = 0; i < n; i++) started(requests[i]));
}

#define OWN_STATUS                                                                                  \
    MPI_Status own_status;                                                                          \
    if (status == MPI_STATUS_IGNORE) status = &own_status

int MPI_Recv(void *buf, int n, MPI_Datatype type, int source, int tag, MPI_Comm comm,
             MPI_Status *status) {
    OWN_STATUS;
    RECORDED(PMPI_Recv(buf, n, type, source, tag, comm, status), received(known(comm), status));
}

int MPI_Irecv(void *buf, int n, MPI_Datatype type, int source, int tag, MPI_Comm comm,
              MPI_Request *request) {
    RECORDED(PMPI_Irecv(buf, n, type, source, tag, comm, request),
             insert((struct request){.handle = *request, .communicator = known(comm), .state = 1}));
}

/* The communicator of a probed message is the one that it was probed on. */
struct probed { MPI_Message message; struct communicator *communicator; };
static struct probed probed[256];

static void probe(MPI_Message message, MPI_Comm comm) {
    struct communicator *c = known(comm);
    for (int i = 0; i < 256; i++)
        if (!probed[i].communicator) {
            probed[i] = (struct probed){message, c};
            return;
        }
}

static struct communicator *take(MPI_Message message) {
    for (int i = 0; i < 256; i++)
        if (probed[i].communicator && probed[i].message == message) {
            struct communicator *c = probed[i].communicator;
            probed[i].communicator = NULL;
            return c;
        }
    return known(MPI_COMM_WORLD);
}

int MPI_Mprobe(int source, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status) {
    RECORDED(PMPI_Mprobe(source, tag, comm, message, status), probe(*message, comm));
}

int MPI_Improbe(int source, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                MPI_Status *status) {
    RECORDED(PMPI_Improbe(source, tag, comm, flag, message, status),
             if (*flag) probe(*message, comm));
}

int MPI_Mrecv(void *buf, int n, MPI_Datatype type, MPI_Message *message, MPI_Status *status) {
    MPI_Message handle = *message;
    OWN_STATUS;
    RECORDED(PMPI_Mrecv(buf, n, type, message, status), received(take(handle), status));
}

int MPI_Imrecv(void *buf, int n, MPI_Datatype type, MPI_Message *message, MPI_Request *request) {
    MPI_Message handle = *message;
    RECORDED(PMPI_Imrecv(buf, n, type, message, request),
             insert((struct request){.handle = *request, .communicator = take(handle), .state = 1}));
}

int MPI_Sendrecv(const void *sbuf, int sn, MPI_Datatype stype, int dest, int stag, void *rbuf,
                 int rn, MPI_Datatype rtype, int source, int rtag, MPI_Comm comm,
                 MPI_Status *status) {
    OWN_STATUS;
    if (!inside && file >= 0) {
        now();
        pthread_mutex_lock(&lock);
        sent(dest, stag, comm, bytes_of(sn, stype), 0);
        pthread_mutex_unlock(&lock);
    }
    RECORDED(PMPI_Sendrecv(sbuf, sn, stype, dest, stag, rbuf, rn, rtype, source, rtag, comm, status),
             received(known(comm), status));
}

int MPI_Sendrecv_replace(void *buf, int n, MPI_Datatype type, int dest, int stag, int source,
                         int rtag, MPI_Comm comm, MPI_Status *status) {
    OWN_STATUS;
    if (!inside && file >= 0) {
        now();
        pthread_mutex_lock(&lock);
        sent(dest, stag, comm, bytes_of(n, type), 0);
        pthread_mutex_unlock(&lock);
    }
    RECORDED(PMPI_Sendrecv_replace(buf, n, type, dest, stag, source, rtag, comm, status),
             received(known(comm), status));
}

/* ---- completion ---- */

/* Handles as they were before the call, which clears them; statuses of our own where none are. */
#define COPIES(n)                                                                                   \
    int few = (n) <= 64;                                                                            \
    MPI_Request few_requests[64], *before = few_requests;                                           \
    MPI_Status few_statuses[64], *own = few_statuses;                                               \
    if (!few) {                                                                                     \
        before = malloc((size_t)(n) * sizeof *before);                                              \
        own = malloc((size_t)(n) * sizeof *own);                                                    \
    }                                                                                               \
    if ((n) > 0) memcpy(before, requests, (size_t)(n) * sizeof *before);                            \
    if (statuses == MPI_STATUSES_IGNORE) statuses = own
#define FREE_COPIES                                                                                 \
    do {                                                                                            \
        if (!few) { free(before); free(own); }                                                      \
    } while (0)
#define TIMED(call, what)                                                                           \
    inside = 1;                                                                                     \
    uint64_t start = now();                                                                         \
    int code = call;                                                                                \
    uint64_t spent = now() - start;                                                                 \
    pthread_mutex_lock(&lock);                                                                      \
    if (code == MPI_SUCCESS) { what; }                                                              \
    in_mpi += spent;                                                                                \
    pthread_mutex_unlock(&lock);                                                                    \
    inside = 0

int MPI_Wait(MPI_Request *request, MPI_Status *status) {
    MPI_Request handle = *request;
    OWN_STATUS;
    RECORDED(PMPI_Wait(request, status), completed(handle, status));
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
    MPI_Request handle = *request;
    OWN_STATUS;
    RECORDED(PMPI_Test(request, flag, status), if (*flag) completed(handle, status));
}

int MPI_Waitany(int n, MPI_Request requests[], int *index, MPI_Status *status) {
    if (inside || file < 0) return PMPI_Waitany(n, requests, index, status);
    MPI_Status *statuses = MPI_STATUSES_IGNORE;
    COPIES(n);
    (void)statuses;
    OWN_STATUS;
    TIMED(PMPI_Waitany(n, requests, index, status),
          if (*index != MPI_UNDEFINED) completed(before[*index], status));
    FREE_COPIES;
    return code;
}

int MPI_Testany(int n, MPI_Request requests[], int *index, int *flag, MPI_Status *status) {
    if (inside || file < 0) return PMPI_Testany(n, requests, index, flag, status);
    MPI_Status *statuses = MPI_STATUSES_IGNORE;
    COPIES(n);
    (void)statuses;
    OWN_STATUS;
    TIMED(PMPI_Testany(n, requests, index, flag, status),
          if (*flag && *index != MPI_UNDEFINED) completed(before[*index], status));
    FREE_COPIES;
    return code;
}

int MPI_Waitall(int n, MPI_Request requests[], MPI_Status statuses[]) {
    if (inside || file < 0) return PMPI_Waitall(n, requests, statuses);
    COPIES(n);
    TIMED(PMPI_Waitall(n, requests, statuses),
          for (int i = 0; i < n; i++) completed(before[i], &statuses[i]));
    FREE_COPIES;
    return code;
}

int MPI_Testall(int n, MPI_Request requests[], int *flag, MPI_Status statuses[]) {
    if (inside || file < 0) return PMPI_Testall(n, requests, flag, statuses);
    COPIES(n);
    TIMED(PMPI_Testall(n, requests, flag, statuses),
          for (int i = 0; *flag && i < n; i++) completed(before[i], &statuses[i]));
    FREE_COPIES;
    return code;
}

#define SOME(name)                                                                                  \
    int MPI_##name(int n, MPI_Request requests[], int *n_out, int indices[],                        \
                   MPI_Status statuses[]) {                                                         \
        if (inside || file < 0) return PMPI_##name(n, requests, n_out, indices, statuses);          \
        COPIES(n);                                                                                  \
        TIMED(PMPI_##name(n, requests, n_out, indices, statuses),                                   \
              for (int i = 0; *n_out != MPI_UNDEFINED && i < *n_out; i++)                           \
                  completed(before[indices[i]], &statuses[i]));                                     \
        FREE_COPIES;                                                                                \
        return code;                                                                                \
    }
SOME(Waitsome)
SOME(Testsome)

int MPI_Request_free(MPI_Request *request) {
    MPI_Request handle = *request;
    RECORDED(PMPI_Request_free(request), {
        struct request *r = request_of(handle);
        if (r) r->state = 4;
    });
}

/* ---- communicators that are made ---- */

static void made(MPI_Comm comm) {
    if (comm != MPI_COMM_NULL) enter(comm);
}
#define MAKES(name, parameters, arguments)                                                          \
    int MPI_##name parameters { RECORDED(PMPI_##name arguments, made(*result)); }
MAKES(Comm_dup, (MPI_Comm c, MPI_Comm *result), (c, result))
MAKES(Comm_dup_with_info, (MPI_Comm c, MPI_Info i, MPI_Comm *result), (c, i, result))
MAKES(Comm_split, (MPI_Comm c, int color, int key, MPI_Comm *result), (c, color, key, result))
MAKES(Comm_split_type, (MPI_Comm c, int type, int key, MPI_Info i, MPI_Comm *result),
      (c, type, key, i, result))
MAKES(Comm_create, (MPI_Comm c, MPI_Group g, MPI_Comm *result), (c, g, result))
MAKES(Comm_create_group, (MPI_Comm c, MPI_Group g, int tag, MPI_Comm *result), (c, g, tag, result))
MAKES(Cart_create, (MPI_Comm c, int n, const int d[], const int p[], int r, MPI_Comm *result),
      (c, n, d, p, r, result))
MAKES(Cart_sub, (MPI_Comm c, const int remain[], MPI_Comm *result), (c, remain, result))
MAKES(Graph_create, (MPI_Comm c, int n, const int x[], const int e[], int r, MPI_Comm *result),
      (c, n, x, e, r, result))
MAKES(Dist_graph_create_adjacent,
      (MPI_Comm c, int n, const int s[], const int sw[], int m, const int d[], const int dw[],
       MPI_Info i, int r, MPI_Comm *result),
      (c, n, s, sw, m, d, dw, i, r, result))
MAKES(Dist_graph_create,
      (MPI_Comm c, int n, const int s[], const int deg[], const int d[], const int w[], MPI_Info i,
       int r, MPI_Comm *result),
      (c, n, s, deg, d, w, i, r, result))
MAKES(Intercomm_create, (MPI_Comm c, int l, MPI_Comm p, int r, int tag, MPI_Comm *result),
      (c, l, p, r, tag, result))
MAKES(Intercomm_merge, (MPI_Comm c, int high, MPI_Comm *result), (c, high, result))

/* ---- collectives: what a rank puts in, or the vector that all hold ---- */

static uint64_t vector(const int counts[], MPI_Comm comm, MPI_Datatype type) {
    uint64_t total = 0;
    int n;
    PMPI_Comm_size(comm, &n);
    for (int i = 0; i < n; i++) total += bytes_of(counts[i], type);
    return total;
}

static int rank_in(MPI_Comm comm) {
    int rank;
    PMPI_Comm_rank(comm, &rank);
    return rank;
}
static int size_of(MPI_Comm comm) {
    int size;
    PMPI_Comm_size(comm, &size);
    return size;
}

#define PUT_IN(buf, n, type, other_n, other_type)                                                   \
    ((buf) == MPI_IN_PLACE ? bytes_of(other_n, other_type) : bytes_of(n, type))
/* A collective and its form without blocking, which has a request more. */
#define EACH(...) __VA_ARGS__
#define BOTH(name, iname, parameters, arguments, what)                                              \
    int MPI_##name(EACH parameters) { RECORDED_FIRST(PMPI_##name(EACH arguments), what); }          \
    int MPI_##iname(EACH parameters, MPI_Request *request) {                                        \
        RECORDED_FIRST(PMPI_##iname(EACH arguments, request), what);                                \
    }

BOTH(Barrier, Ibarrier,
     (MPI_Comm comm),
     (comm),
     collective(BARRIER, -1, comm, 0))
BOTH(Bcast, Ibcast,
     (void *buf, int n, MPI_Datatype type, int root, MPI_Comm comm),
     (buf, n, type, root, comm),
     collective(BCAST, root, comm, bytes_of(n, type)))
BOTH(Reduce, Ireduce,
     (const void *s, void *r, int n, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),
     (s, r, n, type, op, root, comm),
     collective(REDUCE, root, comm, bytes_of(n, type)))
BOTH(Allreduce, Iallreduce,
     (const void *s, void *r, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
     (s, r, n, type, op, comm),
     collective(ALLREDUCE, -1, comm, bytes_of(n, type)))
BOTH(Scan, Iscan,
     (const void *s, void *r, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
     (s, r, n, type, op, comm),
     collective(SCAN, -1, comm, bytes_of(n, type)))
BOTH(Exscan, Iexscan,
     (const void *s, void *r, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
     (s, r, n, type, op, comm),
     collective(SCAN, -1, comm, bytes_of(n, type)))
BOTH(Gather, Igather,
     (const void *s, int sn, MPI_Datatype st, void *r, int rn, MPI_Datatype rt, int root,
      MPI_Comm comm),
     (s, sn, st, r, rn, rt, root, comm),
     collective(GATHER, root, comm, PUT_IN(s, sn, st, rn, rt)))
BOTH(Gatherv, Igatherv,
     (const void *s, int sn, MPI_Datatype st, void *r, const int rn[], const int d[],
      MPI_Datatype rt, int root, MPI_Comm comm),
     (s, sn, st, r, rn, d, rt, root, comm),
     collective(GATHER, root, comm, s == MPI_IN_PLACE ? bytes_of(rn[rank_in(comm)], rt) :
      bytes_of(sn, st)))
BOTH(Scatter, Iscatter,
     (const void *s, int sn, MPI_Datatype st, void *r, int rn, MPI_Datatype rt, int root,
      MPI_Comm comm),
     (s, sn, st, r, rn, rt, root, comm),
     collective(SCATTER, root, comm, PUT_IN(r, rn, rt, sn, st)))
BOTH(Scatterv, Iscatterv,
     (const void *s, const int sn[], const int d[], MPI_Datatype st, void *r, int rn,
      MPI_Datatype rt, int root, MPI_Comm comm),
     (s, sn, d, st, r, rn, rt, root, comm),
     collective(SCATTER, root, comm, r == MPI_IN_PLACE ? bytes_of(sn[rank_in(comm)], st) :
      bytes_of(rn, rt)))
BOTH(Allgather, Iallgather,
     (const void *s, int sn, MPI_Datatype st, void *r, int rn, MPI_Datatype rt, MPI_Comm
      comm),
     (s, sn, st, r, rn, rt, comm),
     collective(ALLGATHER, -1, comm, PUT_IN(s, sn, st, rn, rt)))
BOTH(Allgatherv, Iallgatherv,
     (const void *s, int sn, MPI_Datatype st, void *r, const int rn[], const int d[],
      MPI_Datatype rt, MPI_Comm comm),
     (s, sn, st, r, rn, d, rt, comm),
     collective(ALLGATHER, -1, comm, s == MPI_IN_PLACE ? bytes_of(rn[rank_in(comm)], rt) :
      bytes_of(sn, st)))
BOTH(Alltoall, Ialltoall,
     (const void *s, int sn, MPI_Datatype st, void *r, int rn, MPI_Datatype rt, MPI_Comm
      comm),
     (s, sn, st, r, rn, rt, comm),
     collective(ALLTOALL, -1, comm, (uint64_t)size_of(comm) * PUT_IN(s, sn, st, rn, rt)))
BOTH(Alltoallv, Ialltoallv,
     (const void *s, const int sn[], const int sd[], MPI_Datatype st, void *r, const int
      rn[], const int rd[], MPI_Datatype rt, MPI_Comm comm),
     (s, sn, sd, st, r, rn, rd, rt, comm),
     blocks(comm, s == MPI_IN_PLACE ? rn : sn, NULL, s == MPI_IN_PLACE ? rt : st))
BOTH(Alltoallw, Ialltoallw,
     (const void *s, const int sn[], const int sd[], const MPI_Datatype st[], void *r, const
      int rn[], const int rd[], const MPI_Datatype rt[], MPI_Comm comm),
     (s, sn, sd, st, r, rn, rd, rt, comm),
     blocks(comm, s == MPI_IN_PLACE ? rn : sn, s == MPI_IN_PLACE ? rt : st, MPI_BYTE))
BOTH(Reduce_scatter, Ireduce_scatter,
     (const void *s, void *r, const int n[], MPI_Datatype type, MPI_Op op, MPI_Comm comm),
     (s, r, n, type, op, comm),
     collective(REDUCE_SCATTER, -1, comm, vector(n, comm, type)))
BOTH(Reduce_scatter_block, Ireduce_scatter_block,
     (const void *s, void *r, int n, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
     (s, r, n, type, op, comm),
     collective(REDUCE_SCATTER, -1, comm, (uint64_t)size_of(comm) * bytes_of(n, type)))

/* ---- calls that are counted only ---- */

#define COUNTS(name, parameters, arguments)                                                         \
    int MPI_##name parameters { RECORDED_FIRST(PMPI_##name arguments, left_out[LEFT_##name]++); }
#define TARGET int to, MPI_Aint at, int m, MPI_Datatype u
COUNTS(Put, (const void *b, int n, MPI_Datatype t, TARGET, MPI_Win w), (b, n, t, to, at, m, u, w))
COUNTS(Get, (void *b, int n, MPI_Datatype t, TARGET, MPI_Win w), (b, n, t, to, at, m, u, w))
COUNTS(Accumulate, (const void *b, int n, MPI_Datatype t, TARGET, MPI_Op o, MPI_Win w),
       (b, n, t, to, at, m, u, o, w))
COUNTS(Get_accumulate,
       (const void *b, int n, MPI_Datatype t, void *r, int k, MPI_Datatype v, TARGET, MPI_Op o,
        MPI_Win w),
       (b, n, t, r, k, v, to, at, m, u, o, w))
COUNTS(Fetch_and_op,
       (const void *b, void *r, MPI_Datatype t, int to, MPI_Aint at, MPI_Op o, MPI_Win w),
       (b, r, t, to, at, o, w))
COUNTS(Compare_and_swap,
       (const void *b, const void *c, void *r, MPI_Datatype t, int to, MPI_Aint at, MPI_Win w),
       (b, c, r, t, to, at, w))
COUNTS(Rput, (const void *b, int n, MPI_Datatype t, TARGET, MPI_Win w, MPI_Request *q),
       (b, n, t, to, at, m, u, w, q))
COUNTS(Rget, (void *b, int n, MPI_Datatype t, TARGET, MPI_Win w, MPI_Request *q),
       (b, n, t, to, at, m, u, w, q))
COUNTS(Raccumulate,
       (const void *b, int n, MPI_Datatype t, TARGET, MPI_Op o, MPI_Win w, MPI_Request *q),
       (b, n, t, to, at, m, u, o, w, q))
COUNTS(Neighbor_allgather,
       (const void *s, int n, MPI_Datatype t, void *r, int m, MPI_Datatype u, MPI_Comm c),
       (s, n, t, r, m, u, c))
COUNTS(Neighbor_allgatherv,
       (const void *s, int n, MPI_Datatype t, void *r, const int m[], const int d[], MPI_Datatype u,
        MPI_Comm c),
       (s, n, t, r, m, d, u, c))
COUNTS(Neighbor_alltoall,
       (const void *s, int n, MPI_Datatype t, void *r, int m, MPI_Datatype u, MPI_Comm c),
       (s, n, t, r, m, u, c))
COUNTS(Neighbor_alltoallv,
       (const void *s, const int n[], const int d[], MPI_Datatype t, void *r, const int m[],
        const int e[], MPI_Datatype u, MPI_Comm c),
       (s, n, d, t, r, m, e, u, c))
COUNTS(Neighbor_alltoallw,
       (const void *s, const int n[], const MPI_Aint d[], const MPI_Datatype t[], void *r,
        const int m[], const MPI_Aint e[], const MPI_Datatype u[], MPI_Comm c),
       (s, n, d, t, r, m, e, u, c))

/* ---- Fortran: mpif.h and use mpi (mpi_send_), and use mpi_f08 (mpi_send_f08_) ----
 *
 * Buffers, and constants such as MPI_IN_PLACE, go to the library's own binding untouched. What is
 * recorded is made from the handles, which are integers by reference in all three. A call that the
 * library's binding makes of its C functions lies inside of ours and is not recorded again.
 */

typedef MPI_Fint f;
#define F_BEGIN(symbol, parameters, arguments)                                                      \
    static void(*real) parameters;                                                                  \
    if (!real) real = (void(*) parameters)dlsym(RTLD_NEXT, #symbol);                                \
    f own_error = 0;                                                                                \
    if (!error) error = &own_error;                                                                 \
    if (inside || file < 0) {                                                                       \
        real arguments;                                                                             \
        return;                                                                                     \
    }
#define FORTRAN_AS(symbol, parameters, arguments, first, last)                                      \
    void symbol parameters;                                                                         \
    void symbol parameters {                                                                        \
        F_BEGIN(symbol, parameters, arguments)                                                      \
        inside = 1;                                                                                 \
        uint64_t start = now();                                                                     \
        pthread_mutex_lock(&lock);                                                                  \
        first;                                                                                      \
        pthread_mutex_unlock(&lock);                                                                \
        real arguments;                                                                             \
        uint64_t spent = now() - start;                                                             \
        pthread_mutex_lock(&lock);                                                                  \
        if (*error == MPI_SUCCESS) { last; }                                                        \
        in_mpi += spent;                                                                            \
        pthread_mutex_unlock(&lock);                                                                \
        inside = 0;                                                                                 \
    }
#define FORTRAN(name, parameters, arguments, first, last)                                           \
    FORTRAN_AS(mpi_##name##_, parameters, arguments, first, last)                                   \
    FORTRAN_AS(mpi_##name##_f08_, parameters, arguments, first, last)
#define COMM PMPI_Comm_f2c(*comm)
#define FBYTES(n, type) bytes_of(*(n), PMPI_Type_f2c(*(type)))
#define FREQUEST PMPI_Request_f2c(*request)

#define X(name, synchronous)                                                                        \
    FORTRAN(name, (void *b, f *n, f *type, f *dest, f *tag, f *comm, f *error),                     \
            (b, n, type, dest, tag, comm, error),                                                   \
            sent(*dest, *tag, COMM, FBYTES(n, type), synchronous), )                                \
    FORTRAN(i##name, (void *b, f *n, f *type, f *dest, f *tag, f *comm, f *request, f *error),      \
            (b, n, type, dest, tag, comm, request, error),                                          \
            sent(*dest, *tag, COMM, FBYTES(n, type), synchronous), )                                \
    FORTRAN(name##_init, (void *b, f *n, f *type, f *dest, f *tag, f *comm, f *request, f *error),  \
            (b, n, type, dest, tag, comm, request, error), ,                                        \
            persistent(*dest, *tag, COMM, FBYTES(n, type), FREQUEST, synchronous))
X(send, 0) X(ssend, 1) X(bsend, 0) X(rsend, 0)
#undef X

FORTRAN(irecv, (void *b, f *n, f *type, f *source, f *tag, f *comm, f *request, f *error),
        (b, n, type, source, tag, comm, request, error), ,
        insert((struct request){.handle = FREQUEST, .communicator = known(COMM), .state = 1}))
FORTRAN(recv_init, (void *b, f *n, f *type, f *source, f *tag, f *comm, f *request, f *error),
        (b, n, type, source, tag, comm, request, error), ,
        insert((struct request){.handle = FREQUEST, .communicator = known(COMM), .state = 2}))
FORTRAN(start, (f *request, f *error), (request, error), started(FREQUEST), )
FORTRAN(startall, (f *n, f *request, f *error), (n, request, error),
        for (int i = 0; i < *n; i++) started(PMPI_Request_f2c(request[i])), )

/* Calls with a status: made through the C functions above, as bindings do themselves. The buffer of
 * a receive is a plain address; MPI_BOTTOM is the library's own and is passed by its binding. */
#define F_STATUS_AS(symbol, parameters, arguments, taken)                                           \
    void symbol parameters;                                                                         \
    void symbol parameters {                                                                        \
        F_BEGIN(symbol, parameters, arguments)                                                      \
        f own_status[sizeof(MPI_Status) / sizeof(f) + 1];                                           \
        if (status == MPI_F_STATUS_IGNORE) status = own_status;                                     \
        MPI_Status c_status;                                                                        \
        uint64_t start = now();                                                                     \
        taken;                                                                                      \
        in_mpi += latest - start;                                                                   \
    }
#define F_STATUS(name, parameters, arguments, taken)                                                \
    F_STATUS_AS(mpi_##name##_, parameters, arguments, taken)                                        \
    F_STATUS_AS(mpi_##name##_f08_, parameters, arguments, taken)
#define F_REAL(arguments, last)                                                                     \
    inside = 1;                                                                                     \
    real arguments;                                                                                 \
    inside = 0;                                                                                     \
    now();                                                                                          \
    if (*error == MPI_SUCCESS) {                                                                    \
        PMPI_Status_f2c(status, &c_status);                                                         \
        pthread_mutex_lock(&lock);                                                                  \
        last;                                                                                       \
        pthread_mutex_unlock(&lock);                                                                \
    }
F_STATUS(recv, (void *b, f *n, f *type, f *source, f *tag, f *comm, f *status, f *error),
         (b, n, type, source, tag, comm, status, error),
         F_REAL((b, n, type, source, tag, comm, status, error), received(known(COMM), &c_status)))
F_STATUS(sendrecv,
         (void *b, f *n, f *type, f *dest, f *tag, void *c, f *m, f *type2, f *source, f *tag2,
          f *comm, f *status, f *error),
         (b, n, type, dest, tag, c, m, type2, source, tag2, comm, status, error),
         sent(*dest, *tag, COMM, FBYTES(n, type), 0);
         F_REAL((b, n, type, dest, tag, c, m, type2, source, tag2, comm, status, error),
                received(known(COMM), &c_status)))
F_STATUS(sendrecv_replace,
         (void *b, f *n, f *type, f *dest, f *tag, f *source, f *tag2, f *comm, f *status, f *error),
         (b, n, type, dest, tag, source, tag2, comm, status, error),
         sent(*dest, *tag, COMM, FBYTES(n, type), 0);
         F_REAL((b, n, type, dest, tag, source, tag2, comm, status, error),
                received(known(COMM), &c_status)))
F_STATUS(wait, (f *request, f *status, f *error), (request, status, error),
         MPI_Request handle = FREQUEST;
         F_REAL((request, status, error), completed(handle, &c_status)))
F_STATUS(test, (f *request, f *flag, f *status, f *error), (request, flag, status, error),
         MPI_Request handle = FREQUEST;
         F_REAL((request, flag, status, error), if (*flag) completed(handle, &c_status)))

/* Lists of requests: all handles as they were, and a status of ours for each. */
static MPI_Request *f_handles(int n, const f requests[]) {
    MPI_Request *handles = malloc((size_t)(n + 1) * sizeof *handles);
    for (int i = 0; i < n; i++) handles[i] = PMPI_Request_f2c(requests[i]);
    return handles;
}
enum { F_STATUS_SIZE = sizeof(MPI_Status) / sizeof(f) };
static void f_completed(MPI_Request handle, f *status) {
    MPI_Status c_status;
    PMPI_Status_f2c(status, &c_status);
    completed(handle, &c_status);
}
#define F_LIST_AS(symbol, parameters, arguments, n_statuses, last)                                  \
    void symbol parameters;                                                                         \
    void symbol parameters {                                                                        \
        F_BEGIN(symbol, parameters, arguments)                                                      \
        f *own = malloc((size_t)(n_statuses + 1) * F_STATUS_SIZE * sizeof *own);                    \
        if (status == MPI_F_STATUSES_IGNORE || status == MPI_F_STATUS_IGNORE) status = own;         \
        MPI_Request *handles = f_handles(*n, requests);                                             \
        uint64_t start = now();                                                                     \
        inside = 1;                                                                                 \
        real arguments;                                                                             \
        inside = 0;                                                                                 \
        uint64_t spent = now() - start;                                                             \
        pthread_mutex_lock(&lock);                                                                  \
        in_mpi += spent;                                                                            \
        if (*error == MPI_SUCCESS) { last; }                                                        \
        pthread_mutex_unlock(&lock);                                                                \
        free(handles);                                                                              \
        free(own);                                                                                  \
    }
#define F_LIST(name, parameters, arguments, n_statuses, last)                                       \
    F_LIST_AS(mpi_##name##_, parameters, arguments, n_statuses, last)                               \
    F_LIST_AS(mpi_##name##_f08_, parameters, arguments, n_statuses, last)
F_LIST(waitall, (f *n, f *requests, f *status, f *error), (n, requests, status, error), *n,
       for (int i = 0; i < *n; i++) f_completed(handles[i], status + i * F_STATUS_SIZE))
F_LIST(testall, (f *n, f *requests, f *flag, f *status, f *error),
       (n, requests, flag, status, error), *n,
       for (int i = 0; *flag && i < *n; i++) f_completed(handles[i], status + i * F_STATUS_SIZE))
F_LIST(waitany, (f *n, f *requests, f *index, f *status, f *error),
       (n, requests, index, status, error), 1,
       if (*index > 0 && *index <= *n) f_completed(handles[*index - 1], status))
F_LIST(testany, (f *n, f *requests, f *index, f *flag, f *status, f *error),
       (n, requests, index, flag, status, error), 1,
       if (*flag && *index > 0 && *index <= *n) f_completed(handles[*index - 1], status))
F_LIST(waitsome, (f *n, f *requests, f *m, f *index, f *status, f *error),
       (n, requests, m, index, status, error), *n,
       for (int i = 0; i < *m; i++) f_completed(handles[index[i] - 1], status + i * F_STATUS_SIZE))
F_LIST(testsome, (f *n, f *requests, f *m, f *index, f *status, f *error),
       (n, requests, m, index, status, error), *n,
       for (int i = 0; i < *m; i++) f_completed(handles[index[i] - 1], status + i * F_STATUS_SIZE))

/* Collectives. MPI_IN_PLACE of Fortran is an address of the library's own: the amounts are those of
 * the arguments that hold in both cases. */
FORTRAN(barrier, (f *comm, f *error), (comm, error), collective(BARRIER, -1, COMM, 0), )
FORTRAN(bcast, (void *b, f *n, f *type, f *root, f *comm, f *error), (b, n, type, root, comm, error),
        collective(BCAST, *root, COMM, FBYTES(n, type)), )
FORTRAN(reduce, (void *s, void *r, f *n, f *type, f *op, f *root, f *comm, f *error),
        (s, r, n, type, op, root, comm, error), collective(REDUCE, *root, COMM, FBYTES(n, type)), )
FORTRAN(allreduce, (void *s, void *r, f *n, f *type, f *op, f *comm, f *error),
        (s, r, n, type, op, comm, error), collective(ALLREDUCE, -1, COMM, FBYTES(n, type)), )
FORTRAN(scan, (void *s, void *r, f *n, f *type, f *op, f *comm, f *error),
        (s, r, n, type, op, comm, error), collective(SCAN, -1, COMM, FBYTES(n, type)), )
FORTRAN(allgather, (void *s, f *n, f *type, void *r, f *m, f *type2, f *comm, f *error),
        (s, n, type, r, m, type2, comm, error), collective(ALLGATHER, -1, COMM, FBYTES(m, type2)), )
FORTRAN(allgatherv, (void *s, f *n, f *type, void *r, f *m, f *d, f *type2, f *comm, f *error),
        (s, n, type, r, m, d, type2, comm, error),
        collective(ALLGATHER, -1, COMM, FBYTES(m + rank_in(COMM), type2)), )
FORTRAN(alltoall, (void *s, f *n, f *type, void *r, f *m, f *type2, f *comm, f *error),
        (s, n, type, r, m, type2, comm, error),
        collective(ALLTOALL, -1, COMM, (uint64_t)size_of(COMM) * FBYTES(m, type2)), )
FORTRAN(alltoallv,
        (void *s, f *n, f *d, f *type, void *r, f *m, f *e, f *type2, f *comm, f *error),
        (s, n, d, type, r, m, e, type2, comm, error),
        blocks(COMM, (const int *)n, NULL, PMPI_Type_f2c(*type)), )
FORTRAN(gather, (void *s, f *n, f *type, void *r, f *m, f *type2, f *root, f *comm, f *error),
        (s, n, type, r, m, type2, root, comm, error),
        collective(GATHER, *root, COMM, rank_in(COMM) == *root ? FBYTES(m, type2) : FBYTES(n, type)), )
FORTRAN(gatherv, (void *s, f *n, f *type, void *r, f *m, f *d, f *type2, f *root, f *comm, f *error),
        (s, n, type, r, m, d, type2, root, comm, error),
        collective(GATHER, *root, COMM,
                   rank_in(COMM) == *root ? FBYTES(m + *root, type2) : FBYTES(n, type)), )
FORTRAN(scatter, (void *s, f *n, f *type, void *r, f *m, f *type2, f *root, f *comm, f *error),
        (s, n, type, r, m, type2, root, comm, error),
        collective(SCATTER, *root, COMM, rank_in(COMM) == *root ? FBYTES(n, type) : FBYTES(m, type2)), )
FORTRAN(scatterv,
        (void *s, f *n, f *d, f *type, void *r, f *m, f *type2, f *root, f *comm, f *error),
        (s, n, d, type, r, m, type2, root, comm, error),
        collective(SCATTER, *root, COMM,
                   rank_in(COMM) == *root ? FBYTES(n + *root, type) : FBYTES(m, type2)), )
FORTRAN(reduce_scatter, (void *s, void *r, f *n, f *type, f *op, f *comm, f *error),
        (s, r, n, type, op, comm, error),
        collective(REDUCE_SCATTER, -1, COMM, vector((const int *)n, COMM, PMPI_Type_f2c(*type))), )

/* Begin, end and marks. */
FORTRAN(comm_dup, (f *comm, f *result, f *error), (comm, result, error), ,
        made(PMPI_Comm_f2c(*result)))
FORTRAN(comm_split, (f *comm, f *color, f *key, f *result, f *error),
        (comm, color, key, result, error), , made(PMPI_Comm_f2c(*result)))
FORTRAN(comm_create, (f *comm, f *group, f *result, f *error), (comm, group, result, error), ,
        made(PMPI_Comm_f2c(*result)))
FORTRAN(cart_create, (f *comm, f *n, f *d, f *p, f *r, f *result, f *error),
        (comm, n, d, p, r, result, error), , made(PMPI_Comm_f2c(*result)))
FORTRAN(cart_sub, (f *comm, f *remain, f *result, f *error), (comm, remain, result, error), ,
        made(PMPI_Comm_f2c(*result)))
#define F_BEGINS(symbol, parameters, arguments)                                                     \
    void symbol parameters;                                                                         \
    void symbol parameters {                                                                        \
        void(*real) parameters = (void(*) parameters)dlsym(RTLD_NEXT, #symbol);                     \
        inside++;                                                                                   \
        real arguments;                                                                             \
        inside--;                                                                                   \
        if (!depth_of_init++) begin();                                                              \
    }
F_BEGINS(mpi_init_, (f *error), (error))
F_BEGINS(mpi_init_f08_, (f *error), (error))
F_BEGINS(mpi_init_thread_, (f *required, f *provided, f *error), (required, provided, error))
F_BEGINS(mpi_init_thread_f08_, (f *required, f *provided, f *error), (required, provided, error))
#define F_ENDS(symbol)                                                                              \
    void symbol(f *error);                                                                          \
    void symbol(f *error) {                                                                         \
        void (*real)(f *) = (void (*)(f *))dlsym(RTLD_NEXT, #symbol);                               \
        end();                                                                                      \
        real(error);                                                                                \
    }
F_ENDS(mpi_finalize_)
F_ENDS(mpi_finalize_f08_)
void mpi_pcontrol_(f *level);
void mpi_pcontrol_(f *level) { MPI_Pcontrol(*level); }
