// A pool of threads for the kernels of one process: a plain C interface, POSIX threads, nothing of TVM.
#ifndef FUSIONX_POOL_H_
#define FUSIONX_POOL_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// The most threads of a pool, the calling one among them.
#define FUSIONX_MOST_THREADS 64

// What functions here return. A task's own code that is not 0 is returned as it is.
#define FUSIONX_OK 0
#define FUSIONX_BAD_ARGUMENT (-101)
#define FUSIONX_INSIDE_TASK (-102)  // a task may not change the pool that it runs in
#define FUSIONX_NO_THREAD (-103)    // the system gives fewer threads than were asked for
#define FUSIONX_FORKED (-104)       // a task forked: its launch ends in the child
#define FUSIONX_NO_BARRIER (-105)   // a barrier in a launch whose tasks do not run side by side

// What a task is told of its launch; the layout is that of TVM's TVMParallelGroupEnv.
typedef struct {
  void* sync_handle;
  int32_t num_task;
} FusionXGroup;

typedef int (*FusionXTask)(int task_id, FusionXGroup* group, void* closure);

// Calls `task` with each of 0 .. num_task - 1, on the calling thread and on workers that are free;
// returns when all have ended. With `num_task` 0 there are as many tasks as the pool has threads, or
// one where the pool is busy: with another caller's launch, or with the one that this is called in.
// Returns 0, or what a task returned that was not 0; the other tasks run all the same.
int fusionx_parallel_launch(FusionXTask task, void* closure, int num_task);

// Waits until all tasks of a launch have called this. Only for a launch of no more tasks than the
// pool has threads, and not from a launch within a launch: the launch then returns
// FUSIONX_NO_BARRIER, as this does.
int fusionx_parallel_barrier(int task_id, FusionXGroup* group);

// Whether `group` is of a launch of this pool.
int fusionx_is_own_group(const FusionXGroup* group);

// Ends the workers and starts `threads` - 1 anew; 0 means one thread for each core that the caller
// may run on. `cores` has numbers of cores that workers may run on, none for those of the caller.
// With `is_pinned` worker n (from 1) stays on cores[n % count]; cores[0] is left to the caller.
// Memory is allocated here, and never while tasks run.
int fusionx_pool_configure(int threads, const int* cores, int count, int is_pinned);

// Ends the workers; the next launch starts them again.
int fusionx_pool_stop(void);

// Threads of the pool, the calling one among them; 0 before the first launch and `configure`.
int fusionx_pool_threads(void);

// Workers that are there now.
int fusionx_pool_workers(void);

// Launches that were offered to workers since the process began.
uint64_t fusionx_pool_launches(void);

// How long a worker without work, and a caller whose last tasks others run, looks for a change
// before it sleeps.
void fusionx_pool_set_spin(int worker_microseconds, int caller_microseconds);

#ifdef __cplusplus
}
#endif

#endif  // FUSIONX_POOL_H_
