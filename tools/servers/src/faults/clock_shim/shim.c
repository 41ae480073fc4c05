/* Shifts a process's clocks by offsets that the test may change at any time.
 *
 * The offsets lie in a file that LEASEHOLD_CLOCK names, mapped read-only. Its layout, written by
 * mod.rs beside this file: one byte of generation, then from byte 8 two slots of four signed 64-bit
 * numbers of nanoseconds: the offsets of CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, and the
 * time at which CLOCK_REALTIME stands still, or 0 if it runs. The generation's lowest bit says which
 * slot holds. A writer fills the other and then moves the generation on.
 *
 * The clocks are read by system call. Looking the real functions up with dlsym would allocate, and
 * an allocator that asks for the time while it sets itself up (jemalloc) then waits for itself.
 * Until the constructor has run the offsets are zero.
 *
 * An instant until which a thread waits for a condition was told by a shifted clock: it is shifted back
 * before the kernel, which knows the true ones, gets it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { REAL, MONO, BOOT, STILL, NUMBERS };
struct shared {
    volatile uint8_t generation;
    uint8_t unused[7];
    volatile int64_t slots[2][NUMBERS];
};
static const struct shared *shared;
static int (*real_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
static int (*real_clockwait)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);

static void find_real(void) {
    *(void **)&real_clockwait = dlsym(RTLD_NEXT, "pthread_cond_clockwait");
    *(void **)&real_timedwait = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
}

__attribute__((constructor)) static void map_offsets(void) {
    find_real();
    const char *path = getenv("LEASEHOLD_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *at = mmap(NULL, sizeof *shared, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (at != MAP_FAILED) shared = at;
}

struct shown {
    int64_t offset;
    int64_t still;
};

static struct shown shown(clockid_t id) {
    const struct shown unshifted = {0, 0};
    int clock;
    switch (id) {
    case CLOCK_REALTIME: case CLOCK_REALTIME_COARSE: case CLOCK_TAI: clock = REAL; break;
    case CLOCK_MONOTONIC: case CLOCK_MONOTONIC_COARSE: case CLOCK_MONOTONIC_RAW: clock = MONO; break;
    case CLOCK_BOOTTIME: clock = BOOT; break;
    default: return unshifted; /* CPU time does not shift */
    }
    if (!shared) return unshifted;
    for (;;) {
        uint8_t before = __atomic_load_n(&shared->generation, __ATOMIC_ACQUIRE);
        volatile const int64_t *slot = shared->slots[before & 1];
        struct shown found = {slot[clock], clock == REAL ? slot[STILL] : 0};
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (before == __atomic_load_n(&shared->generation, __ATOMIC_RELAXED)) return found;
    }
}

static void shift(struct timespec *ts, int64_t by) {
    const int64_t second = 1000000000;
    int64_t nanos = ts->tv_nsec + by % second;
    ts->tv_sec += by / second;
    if (nanos < 0) { nanos += second; ts->tv_sec--; }
    if (nanos >= second) { nanos -= second; ts->tv_sec++; }
    ts->tv_nsec = nanos;
}

int clock_gettime(clockid_t id, struct timespec *ts) {
    struct shown it = shown(id);
    if (it.still) {
        *ts = (struct timespec){0, 0};
        shift(ts, it.still);
    } else if (syscall(SYS_clock_gettime, id, ts) != 0) {
        return -1;
    }
    shift(ts, it.offset);
    return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz) {
    struct timespec ts;
    (void)tz; /* obsolete; the kernel leaves it zero too */
    if (clock_gettime(CLOCK_REALTIME, &ts) != 0) return -1;
    tv->tv_sec = ts.tv_sec;
    tv->tv_usec = ts.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec ts;
    if (clock_gettime(CLOCK_REALTIME, &ts) != 0) return -1;
    if (out) *out = ts.tv_sec;
    return ts.tv_sec;
}

/* On the kernel's clock. An instant before its beginning has passed. */
static struct timespec kernels(clockid_t id, const struct timespec *until) {
    struct timespec ts = *until;
    /* What is not a time is left for the real function to refuse. */
    if (ts.tv_nsec < 0 || ts.tv_nsec >= 1000000000) return ts;
    struct shown it = shown(id);
    if (it.still) {
        struct timespec now;
        syscall(SYS_clock_gettime, id, &now);
        shift(&ts, -it.still);
        shift(&ts, now.tv_sec * INT64_C(1000000000) + now.tv_nsec);
    }
    shift(&ts, -it.offset);
    if (ts.tv_sec < 0) ts = (struct timespec){0, 0};
    return ts;
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    if (!real_timedwait) find_real();
    /* By which clock it waits is the condition's secret. No machine has run for thirty years, and no
     * wall clock stands so early: this tells them apart. */
    clockid_t id = until->tv_sec < 1000000000 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    struct timespec ts = kernels(id, until);
    return real_timedwait(cond, mutex, &ts);
}

int pthread_cond_clockwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           clockid_t id, const struct timespec *restrict until) {
    if (!real_clockwait) find_real();
    struct timespec ts = kernels(id, until);
    return real_clockwait(cond, mutex, id, &ts);
}
