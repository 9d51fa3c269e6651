/* Lets hundreds of MPI ranks share a few cores. Preloaded into each rank.
 *
 * A rank of Open MPI that waits polls: during start-up with a sleep of 0.1 ms between the polls, later with
 * sched_yield(). With 512 ranks on two cores the polling alone uses up the machine. Here every wait sleeps for
 * at least PAUSE_NS instead. What the ranks send is unchanged; only when they send it.
 *
 *   gcc -O2 -shared -fPIC -o sleep_when_idle.so sleep_when_idle.c
 */
#define _GNU_SOURCE
#include <sched.h>
#include <time.h>
#include <unistd.h>

#ifndef PAUSE_NS
#define PAUSE_NS 2000000
#endif
enum { START_UP_PAUSE_NS = 20000000 };

int sched_yield(void)
{
    const struct timespec pause = {0, PAUSE_NS};
    return clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

int usleep(useconds_t microseconds)
{
    long nanoseconds = 1000L * (long)microseconds;
    if (nanoseconds < START_UP_PAUSE_NS)
        nanoseconds = START_UP_PAUSE_NS;
    const struct timespec pause = {nanoseconds / 1000000000L, nanoseconds % 1000000000L};
    return clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}
