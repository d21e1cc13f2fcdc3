/* Two models in one program, three instances in as many threads, and a launcher of threads. */
#include "net.h"
#include "other.h"

#ifdef WITH_POOL
#include "pool.h"
#endif

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATS = 20, MOST = 8 };

static void *aligned(size_t bytes) {
  unsigned char *got = malloc(bytes + NET_ALIGNMENT);
  if (got == NULL) exit(9);
  return got + NET_ALIGNMENT - (uintptr_t)got % NET_ALIGNMENT;
}

static float *x, *scale, *expected;
static int failures, launches;

#ifndef WITH_POOL
/* As TVM's pool gives it to a task. */
typedef struct { void *sync; int32_t tasks; } task_env;
typedef struct { net_task task; void *data; task_env *env; int number, status; } job;

static void *work(void *data) {
  job *mine = data;
  mine->status = mine->task(mine->number, mine->env, mine->data);
  return NULL;
}

/* A thread for each task, none of them the caller's. */
static int launch(net_task task, void *data, int tasks) {
  pthread_t threads[MOST];
  job jobs[MOST];
  task_env env;
  int number, status = 0;
  env.sync = NULL;
  env.tasks = tasks;
  __sync_fetch_and_add(&launches, 1);
  for (number = 0; number < tasks; ++number) {
    jobs[number].task = task;
    jobs[number].data = data;
    jobs[number].env = &env;
    jobs[number].number = number;
    if (pthread_create(&threads[number], NULL, work, &jobs[number]) != 0) exit(8);
  }
  for (number = 0; number < tasks; ++number) {
    pthread_join(threads[number], NULL);
    if (jobs[number].status != 0) status = jobs[number].status;
  }
  return status;
}

#endif

#define INSTANCE(name, NAME)                                                                    \
  static void *run_##name(void *unused) {                                                       \
    name##_weights weights;                                                                     \
    name##_inputs inputs;                                                                       \
    name##_outputs outputs;                                                                     \
    void *arena = aligned(NAME##_ARENA_BYTES);                                                  \
    const size_t bytes = NAME##_OUTPUT_1_ELEMENTS * sizeof(float);                              \
    int time;                                                                                   \
    (void)unused;                                                                               \
    inputs.x = x;                                                                               \
    inputs.in_scale = scale;                                                                    \
    outputs.output_0 = aligned(NAME##_OUTPUT_0_ELEMENTS * sizeof(float));                       \
    outputs.output_1 = aligned(bytes);                                                          \
    outputs.output_2 = aligned(NAME##_OUTPUT_2_ELEMENTS * sizeof(float));                       \
    outputs.output_3 = aligned(NAME##_OUTPUT_3_ELEMENTS * sizeof(float));                       \
    if (name##_builtin_weights(&weights) != 0) __sync_fetch_and_add(&failures, 1);              \
    for (time = 0; time < REPEATS; ++time) {                                                    \
      memset(outputs.output_1, 0, bytes);                                                       \
      if (name##_run(&inputs, &outputs, arena, NAME##_ARENA_BYTES, &weights) != 0 ||            \
          memcmp(outputs.output_1, expected, bytes) != 0)                                       \
        __sync_fetch_and_add(&failures, 1);                                                     \
    }                                                                                           \
    return NULL;                                                                                \
  }

INSTANCE(net, NET)
INSTANCE(other, OTHER)

static void *filled(const char *path, size_t bytes) {
  FILE *file = fopen(path, "rb");
  void *got = aligned(bytes);
  if (file == NULL || fread(got, 1, bytes, file) != bytes) exit(7);
  fclose(file);
  return got;
}

int main(int count, char **words) {
  void *(*const instances[])(void *) = {run_net, run_other, run_other};
  pthread_t threads[3];
  int number;
  if (count != 4) return 6;
  x = filled(words[1], NET_X_ELEMENTS * sizeof(float));
  scale = filled(words[2], NET_IN_SCALE_ELEMENTS * sizeof(float));
  expected = filled(words[3], NET_OUTPUT_1_ELEMENTS * sizeof(float));
#ifdef WITH_POOL
  if (fusionx_pool_configure(2, NULL, 0, 0) != 0) return 4;
  other_set_launcher((other_launcher)fusionx_parallel_launch);
#else
  other_set_launcher(launch);
#endif
  for (number = 0; number < 3; ++number)
    if (pthread_create(&threads[number], NULL, instances[number], NULL) != 0) return 5;
  for (number = 0; number < 3; ++number) pthread_join(threads[number], NULL);
#ifdef WITH_POOL
  launches = (int)fusionx_pool_launches();
#endif
  printf("%d failures, %s\n", failures, launches > 0 ? "launched" : "never launched");
  return failures != 0 || launches == 0;
}
