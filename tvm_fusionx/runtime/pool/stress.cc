// Launches many small jobs of every kind from several threads, and checks each: run it also with the
// thread sanitizer. What tasks write is plain memory: a task that runs twice, is missed, or is not seen
// by its caller is a wrong number, and a race for the sanitizer.
//
//     stress THREADS CALLERS LAUNCHES [RECONFIGURATIONS]
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include <atomic>
#include <thread>
#include <vector>

#include "pool.h"

namespace {

constexpr int kMostTasks = 200;
constexpr int kCode = 7;
constexpr int kPhases = 3;

enum class Kind { kPlain, kNested, kFailing, kMeeting };

struct Job {
  Kind kind;
  int asked;
  int count;  // of tasks, as task 0 was told
  int done[kMostTasks];
  int phases[kMostTasks];
  std::atomic<int> wrong;
};

int Inner(int id, FusionXGroup* group, void* closure) {
  static_cast<int*>(closure)[id] += group->num_task;
  return 0;
}

int Task(int id, FusionXGroup* group, void* closure) {
  Job* job = static_cast<Job*>(closure);
  if (id == 0) job->count = group->num_task;
  if (id >= group->num_task || (job->asked && group->num_task != job->asked)) ++job->wrong;
  job->done[id] += 1;
  if (job->kind == Kind::kNested) {
    int inner[3] = {};
    if (fusionx_parallel_launch(Inner, inner, 3)) ++job->wrong;
    for (int value : inner) job->wrong += value != 3;
  }
  if (job->kind == Kind::kMeeting) {
    for (int phase = 1; phase <= kPhases; ++phase) {
      job->phases[id] = phase;
      if (fusionx_parallel_barrier(id, group)) ++job->wrong;
      for (int other = 0; other < group->num_task; ++other) job->wrong += job->phases[other] != phase;
      if (fusionx_parallel_barrier(id, group)) ++job->wrong;
    }
  }
  return job->kind == Kind::kFailing && id == group->num_task / 2 ? kCode : 0;
}

long Check(uint32_t* chance) {
  Job job{};
  *chance = *chance * 1664525u + 1013904223u;
  const uint32_t drawn = *chance >> 8;
  job.kind = drawn % 64 == 0 ? Kind::kNested
             : drawn % 64 == 1 ? Kind::kFailing
             : drawn % 64 == 2 ? Kind::kMeeting : Kind::kPlain;
  const bool is_default = job.kind == Kind::kMeeting || drawn / 64 % 2;
  job.asked = is_default ? 0 : 1 + drawn / 128 % (drawn / 128 % 16 ? 8 : kMostTasks);
  const int code = fusionx_parallel_launch(Task, &job, job.asked);
  long wrong = job.wrong + (code != (job.kind == Kind::kFailing ? kCode : 0));
  for (int id = 0; id < kMostTasks; ++id) wrong += job.done[id] != (id < job.count);
  return wrong;
}

}  // namespace

int main(int count, char** words) {
  const int threads = count > 1 ? atoi(words[1]) : 4;
  const int callers = count > 2 ? atoi(words[2]) : 2;
  const long launches = count > 3 ? atol(words[3]) : 100000;
  const int changes = count > 4 ? atoi(words[4]) : 0;
  if (fusionx_pool_configure(threads, nullptr, 0, 0)) return 2;
  std::atomic<long> wrong{0};
  std::atomic<int> left{callers};
  std::vector<std::thread> all;
  for (int caller = 0; caller < callers; ++caller) {
    all.emplace_back([&, caller] {
      uint32_t chance = 12345u + caller;
      for (long at = caller; at < launches; at += callers) wrong += Check(&chance);
      --left;
    });
  }
  for (int change = 0; change < changes && left; ++change) {
    for (int rest = 0; rest < 100 && left; ++rest) sched_yield();
    // 2 and more: a meeting of all tasks needs as many threads as it was told of.
    if (fusionx_pool_configure(2 + change % threads, nullptr, 0, 0)) ++wrong;
  }
  for (std::thread& each : all) each.join();
  if (fusionx_pool_stop() || fusionx_pool_workers()) ++wrong;
  printf("%ld launches, %d threads, %d callers: %ld wrong\n", launches, threads, callers, wrong.load());
  return wrong ? 1 : 0;
}
