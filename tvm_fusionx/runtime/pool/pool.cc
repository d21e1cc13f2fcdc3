// How tasks are given out, and why no thread reads what another is writing.
//
// A launch has at most 64 *shares*, each of one task or, beyond 64 tasks, of several in a row. The set
// of shares that nobody has begun is the one word `unclaimed`. These are all the rules:
//
//  1. Whoever holds `slot` may publish: it writes the job's plain fields and 0 to `finished`, then
//     stores the set to `unclaimed` with release. Who does not get the slot runs its tasks itself.
//  2. Whoever takes a bit out of `unclaimed` with compare-and-swap (acquire) has begun that share. It
//     reads the job's fields only then, runs the share, and adds 1 to `finished` with release. After
//     that it reads no field of the job.
//  3. The publisher takes shares like everybody else; when `unclaimed` is empty each is begun or done.
//     It waits until `finished` counts all of them (acquire), then frees the slot (release).
//
// The fields are therefore written only while no share is begun and unfinished (3, 1), and read only
// while one is (2): a worker that comes late finds no bit, and reads none. What a swap compares is the
// set alone. Should a worker sleep between its look and its swap while whole jobs pass, and find the
// same set again, then the bit is one of the job that is there now, unclaimed, and taking it is right:
// no count of jobs that may wrap is needed. Swaps are read-modify-writes, so they continue the release
// sequence of the store, and an acquire of any of them sees the fields.
//
// Nobody waits for who has not begun: a worker that the system does not schedule has taken no share.
//
// Sleeping: a worker remembers `bell`, looks once more for shares, adds itself to `sleepers`, and sleeps
// only while `bell` is what it remembered; a publisher stores the set, rings (adds 1), and wakes if
// there are sleepers. All of these but the set are sequentially consistent: either the bell rang before
// the sleeper compared, and it does not sleep, or the sleeper was counted before the bell rang, and it
// is woken. A bell that rang exactly 2^32 times in between costs a worker one job, not the job its end:
// the publisher runs every share that others leave.
//
// Lending: beside other programs a worker may lose its core in the middle of a share, for milliseconds.
// A publisher that waits for it looks at the worker's clock; where that stands still it moves the worker
// to its own core and sleeps. The worker ends the share there and sleeps without looking for more, so
// that the core is the publisher's again, who then gives the worker back the cores it had. Only who
// holds the slot says where workers run.
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "cores.h"
#include "group.h"
#include "waiting.h"

namespace fusionx {
namespace {

constexpr int kMostShares = 64;
constexpr int kLine = 128;  // two cache lines: they are fetched in pairs
constexpr int kMostCores = 1024;
constexpr uint32_t kCallerSleeps = 1u << 31;
constexpr int kEverybody = 1 << 30;
constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};

// Workers outlast the gaps between kernels, some microseconds, and a small operator that runs on one
// thread. A caller waits for less than a kernel: it sleeps soon, for beside other programs the worker
// that it waits for may need this very core.
constexpr int kWorkerSpinMicroseconds = 100;
constexpr int kCallerSpinMicroseconds = 50;

// A thread that has its core for less than a quarter of a look has lost it. A caller looks no longer
// than this at workers that do run, and then sleeps.
constexpr int kLookMicroseconds = 20;
constexpr int kMostLooks = 25;

struct alignas(kLine) Worker {
  std::atomic<int> is_running;  // a share
  std::atomic<int> has_lent_core;
  std::atomic<int> knows_cores;  // once it began
  Cores cores;                   // what the pool gave it last; then written by who holds the slot
};

struct Pool {
  // One line holds all that a worker needs to begin.
  alignas(kLine) std::atomic<uint64_t> unclaimed;
  FusionXTask task;
  void* closure;
  int num_task;
  int shares;
  Group group;
  alignas(kLine) std::atomic<uint32_t> finished;
  alignas(kLine) std::atomic<uint32_t> bell;
  std::atomic<uint32_t> sleepers;
  alignas(kLine) std::atomic<uint32_t> slot;
  std::atomic<uint32_t> generation;  // of the process: a fork makes another
  std::atomic<int> threads;
  std::atomic<int> workers;
  std::atomic<int> wanted;
  std::atomic<int> worker_spin{kWorkerSpinMicroseconds};
  std::atomic<int> caller_spin{kCallerSpinMicroseconds};
  std::atomic<int> watches_forks;
  std::atomic<uint64_t> launches;
  // Who holds the slot, and its workers; 0 where nobody.
  std::atomic<uintptr_t> owner;
  std::atomic<uintptr_t> ids[FUSIONX_MOST_THREADS];
  // Below: written by who holds the slot.
  pthread_t handles[FUSIONX_MOST_THREADS];
  int is_pinned;
  int caller_core;  // workers stay off it; one more than its number, 0 where none is
  int core_count;
  int cores[kMostCores];
  Worker all[FUSIONX_MOST_THREADS];
};

// There from the start of the process: no constructor has to run before.
Pool pool;

uintptr_t Self() { return (uintptr_t)pthread_self(); }  // a number here, a pointer there

// The share to take next of a set that is not empty: one's own, else the next one round.
int Choose(uint64_t left, int own) {
  const uint64_t from_own = left >> own << own;
  return __builtin_ctzll(from_own ? from_own : left);
}

// Runs a share that was begun. Reads the job's fields.
void RunShare(int share) {
  const int64_t count = pool.num_task;
  const int begin = static_cast<int>(count * share / pool.shares);
  const int end = static_cast<int>(count * (share + 1) / pool.shares);
  for (int id = begin; id < end; ++id) {
    Note(&pool.group, pool.task(id, &pool.group.shown, pool.closure));
  }
}

// Takes a share out of the set; -1 where there is none.
int Take(int own) {
  uint64_t left = pool.unclaimed.load(std::memory_order_relaxed);
  while (left) {
    const int share = Choose(left, own);
    const uint64_t rest = left & ~(uint64_t{1} << share);
    if (pool.unclaimed.compare_exchange_weak(left, rest, std::memory_order_acquire,
                                             std::memory_order_relaxed)) {
      return share;
    }
  }
  return -1;
}

void* Work(void* argument) {
  const int own = static_cast<int>(reinterpret_cast<intptr_t>(argument));
  const uint32_t generation = pool.generation.load(std::memory_order_relaxed);
  Worker& self = pool.all[own];
  self.has_lent_core.store(0, std::memory_order_relaxed);
#if defined(__linux__)
  // The slot's holder made this thread and waits for it, or starts others from the same list: nobody
  // changes the list while a worker is there.
  if (pool.core_count) {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    if (pool.is_pinned) {
      CPU_SET(pool.cores[own % pool.core_count], &mask);
    } else {
      for (int at = 0; at < pool.core_count; ++at) CPU_SET(pool.cores[at], &mask);
    }
    sched_setaffinity(0, sizeof mask, &mask);  // a core that is gone: it runs where it may
  }
#endif
  if (GetCores(pthread_self(), &self.cores)) self.knows_cores.store(1, std::memory_order_release);
  for (;;) {
    const uint32_t seen = pool.bell.load(std::memory_order_seq_cst);
    if (own > pool.wanted.load(std::memory_order_seq_cst)) return nullptr;
    self.is_running.store(1, std::memory_order_relaxed);
    for (int share; (share = Take(own)) >= 0;) {
      const int shares = pool.shares;
      RunShare(share);
      // In a task's own child process this thread is the only one, and its pool is new.
      if (pool.generation.load(std::memory_order_relaxed) != generation) return nullptr;
      const uint32_t before = pool.finished.fetch_add(1, std::memory_order_acq_rel);
      if (before == (kCallerSleeps | static_cast<uint32_t>(shares - 1))) Wake(&pool.finished, 1);
    }
    self.is_running.store(0, std::memory_order_relaxed);
    const auto is_called = [seen] {
      return pool.unclaimed.load(std::memory_order_relaxed) != 0 ||
             pool.bell.load(std::memory_order_relaxed) != seen;
    };
    // Who was lent a core leaves it at once.
    const bool may_spin = !self.has_lent_core.load(std::memory_order_relaxed);
    if (may_spin && SpinUntil(is_called, pool.worker_spin.load(std::memory_order_relaxed))) continue;
    pool.sleepers.fetch_add(1, std::memory_order_seq_cst);
    SleepWhile(&pool.bell, seen);
    pool.sleepers.fetch_sub(1, std::memory_order_seq_cst);
  }
}

void Ring(int sleepers) {
  pool.bell.fetch_add(1, std::memory_order_seq_cst);
  if (pool.sleepers.load(std::memory_order_seq_cst)) Wake(&pool.bell, sleepers);
}

// In the child of a fork: no worker came along, and no launch that was under way.
void ForgetAfterFork() {
  pool.generation.fetch_add(1, std::memory_order_relaxed);
  pool.unclaimed.store(0, std::memory_order_relaxed);
  pool.finished.store(0, std::memory_order_relaxed);
  pool.sleepers.store(0, std::memory_order_relaxed);
  pool.workers.store(0, std::memory_order_relaxed);
  for (auto& id : pool.ids) id.store(0, std::memory_order_relaxed);
  pool.owner.store(0, std::memory_order_relaxed);
  ForgetSleepers();
  pool.slot.store(0, std::memory_order_release);
}

bool TakeSlot() {
  if (pool.slot.load(std::memory_order_relaxed)) return false;
  if (pool.slot.exchange(1, std::memory_order_acquire)) return false;
  pool.owner.store(Self(), std::memory_order_relaxed);
  return true;
}

void FreeSlot() {
  pool.owner.store(0, std::memory_order_relaxed);
  pool.slot.store(0, std::memory_order_release);
}

int CountUsableCores() {
#if defined(__linux__)
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (!sched_getaffinity(0, sizeof mask, &mask) && CPU_COUNT(&mask)) return CPU_COUNT(&mask);
#endif
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? static_cast<int>(online) : 1;
}

// Starts the workers that are missing; the slot is held.
int StartWorkers() {
  const int count = pool.threads.load(std::memory_order_relaxed) - 1;
  if (!pool.watches_forks.exchange(1, std::memory_order_relaxed)) {
    pthread_atfork(nullptr, nullptr, ForgetAfterFork);
  }
  pool.wanted.store(count, std::memory_order_seq_cst);
  pool.caller_core = 0;
  sigset_t all, before;
  // Signals are for the program's own threads; a fault is of the thread that makes it.
  sigfillset(&all);
  for (int fault : kFaults) sigdelset(&all, fault);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int number = pool.workers.load(std::memory_order_relaxed) + 1;
  int failed = 0;
  for (; number <= count; ++number) {
    pool.all[number].knows_cores.store(0, std::memory_order_relaxed);
    void* argument = reinterpret_cast<void*>(static_cast<intptr_t>(number));
    failed = pthread_create(&pool.handles[number], nullptr, Work, argument);
    if (failed) break;
    pool.ids[number].store((uintptr_t)pool.handles[number], std::memory_order_relaxed);
    pool.workers.store(number, std::memory_order_relaxed);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed) pool.threads.store(pool.workers.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return failed ? FUSIONX_NO_THREAD : FUSIONX_OK;
}

// Ends all workers; the slot is held.
void EndWorkers() {
  pool.wanted.store(0, std::memory_order_seq_cst);
  Ring(kEverybody);
  const int count = pool.workers.load(std::memory_order_relaxed);
  for (int number = 1; number <= count; ++number) {
    pthread_join(pool.handles[number], nullptr);
    pool.ids[number].store(0, std::memory_order_relaxed);
  }
  pool.workers.store(0, std::memory_order_relaxed);
}

void SetThreads(int threads) {
  if (!threads) threads = CountUsableCores();
  if (threads > FUSIONX_MOST_THREADS) threads = FUSIONX_MOST_THREADS;
  pool.threads.store(threads, std::memory_order_relaxed);
}

// Whether the calling thread is in a task of the launch that holds the slot.
bool IsInTask() {
  const uintptr_t self = Self();
  if (pool.owner.load(std::memory_order_relaxed) == self) return true;
  for (const auto& id : pool.ids) {
    if (id.load(std::memory_order_relaxed) == self) return true;
  }
  return false;
}

// Waits for the slot; false where it would wait for itself.
bool WaitForSlot() {
  while (!TakeSlot()) {
    if (IsInTask()) return false;
    sched_yield();
  }
  return true;
}

// Moves workers that are in a share and have no core to the one that the caller runs on; which, as a
// set of their numbers; `before` gets the cores they had.
template <typename Condition>
uint64_t LendCore(const Condition& is_over, Cores* before) {
  const int workers = pool.workers.load(std::memory_order_relaxed);
  for (int look = 0; look < kMostLooks; ++look) {
    int64_t times[FUSIONX_MOST_THREADS];
    for (int number = 1; number <= workers; ++number) {
      const bool is_running = pool.all[number].is_running.load(std::memory_order_relaxed);
      times[number] = is_running ? TimeOnCores(pool.handles[number]) : -1;
    }
    if (SpinUntil(is_over, kLookMicroseconds)) return 0;
    const int core = OwnCore();
    uint64_t lent = 0;
    for (int number = 1; number <= workers && core >= 0; ++number) {
      if (times[number] < 0 || !pool.all[number].is_running.load(std::memory_order_relaxed)) continue;
      const pthread_t worker = pool.handles[number];
      if (TimeOnCores(worker) - times[number] > kLookMicroseconds * 1000 / 4) continue;
      if (!GetCores(worker, &before[number])) continue;
      pool.all[number].has_lent_core.store(1, std::memory_order_relaxed);
      if (MoveTo(worker, core)) {
        lent |= uint64_t{1} << number;
      } else {
        pool.all[number].has_lent_core.store(0, std::memory_order_relaxed);
      }
    }
    if (lent) return lent;
  }
  return 0;
}

// Gives workers the cores that they had.
void TakeCoreBack(uint64_t lent, const Cores* before) {
  for (; lent; lent &= lent - 1) {
    const int number = __builtin_ctzll(lent);
    SetCores(pool.handles[number], before[number]);
    pool.all[number].has_lent_core.store(0, std::memory_order_relaxed);
  }
}

// Waits until all shares of the job have ended; false in the child of a fork, where they never will.
bool WaitForOthers(uint32_t shares, uint32_t generation) {
  const auto is_over = [shares] {
    return (pool.finished.load(std::memory_order_acquire) & ~kCallerSleeps) == shares;
  };
  if (SpinUntil(is_over, pool.caller_spin.load(std::memory_order_relaxed))) return true;
  Cores before[FUSIONX_MOST_THREADS];
  const uint64_t lent = LendCore(is_over, before);
  while (!is_over()) {
    const uint32_t seen =
        pool.finished.fetch_or(kCallerSleeps, std::memory_order_acq_rel) | kCallerSleeps;
    if ((seen & ~kCallerSleeps) == shares) break;
    SleepWhile(&pool.finished, seen);
    if (pool.generation.load(std::memory_order_relaxed) != generation) return false;
  }
  TakeCoreBack(lent, before);
  return true;
}

// Keeps workers off the core that the caller runs on; the slot is held.
//
// A system likes to wake a thread where its waker runs. There it would get no time before the caller
// has taken all shares itself. Nothing is done where workers are pinned, or more than the other cores;
// nor to a worker whose cores the program or its user has changed: there it is not ours to move.
void LeaveCoreToCaller() {
#if defined(__linux__)
  const int core = OwnCore();
  if (core < 0 || core + 1 == pool.caller_core) return;
  const int workers = pool.workers.load(std::memory_order_relaxed);
  for (int number = 1; number <= workers; ++number) {
    if (!pool.all[number].knows_cores.load(std::memory_order_acquire)) return;  // with a later launch
  }
  pool.caller_core = core + 1;
  if (pool.core_count && pool.is_pinned) return;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (pool.core_count) {
    for (int at = 0; at < pool.core_count; ++at) CPU_SET(pool.cores[at], &mask);
  } else if (sched_getaffinity(0, sizeof mask, &mask)) {
    return;
  }
  CPU_CLR(core, &mask);
  if (CPU_COUNT(&mask) < workers) return;
  for (int number = 1; number <= workers; ++number) {
    const pthread_t worker = pool.handles[number];
    Cores& given = pool.all[number].cores;
    Cores now;
    if (!GetCores(worker, &now) || !CPU_EQUAL(&now, &given)) continue;
    // Read back: the system leaves out cores that the process may not use.
    if (SetCores(worker, mask) && GetCores(worker, &now)) given = now;
  }
#endif
}

// Publishes a job, takes part in it, and waits for what others have begun; the slot is held.
int RunTogether(FusionXTask task, void* closure, int num_task, int threads, uint32_t generation) {
  LeaveCoreToCaller();
  const int shares = num_task < kMostShares ? num_task : kMostShares;
  pool.task = task;
  pool.closure = closure;
  pool.num_task = num_task;
  pool.shares = shares;
  Begin(&pool.group, num_task, num_task <= threads);
  pool.finished.store(0, std::memory_order_relaxed);
  pool.launches.store(pool.launches.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  // The first share is the caller's own.
  const uint64_t all = shares == kMostShares ? ~uint64_t{0} : (uint64_t{1} << shares) - 1;
  pool.unclaimed.store(all & ~uint64_t{1}, std::memory_order_release);
  Ring(shares - 1);
  uint32_t own = 0;
  for (int share = 0; share >= 0; share = Take(0)) {
    RunShare(share);
    ++own;
    if (pool.generation.load(std::memory_order_relaxed) != generation) return FUSIONX_FORKED;
  }
  pool.finished.fetch_add(own, std::memory_order_acq_rel);
  if (!WaitForOthers(shares, generation)) return FUSIONX_FORKED;
  return pool.group.status.load(std::memory_order_relaxed);
}

}  // namespace
}  // namespace fusionx

using namespace fusionx;

extern "C" {

int fusionx_parallel_launch(FusionXTask task, void* closure, int num_task) {
  if (!task || num_task < 0) return FUSIONX_BAD_ARGUMENT;
  if (num_task == 1 || pool.threads.load(std::memory_order_relaxed) == 1) {
    return RunAlone(task, closure, num_task);
  }
  if (!TakeSlot()) return RunAlone(task, closure, num_task);
  const uint32_t generation = pool.generation.load(std::memory_order_relaxed);
  if (!pool.threads.load(std::memory_order_relaxed)) SetThreads(0);
  int threads = pool.threads.load(std::memory_order_relaxed);
  if (pool.workers.load(std::memory_order_relaxed) != threads - 1) {
    StartWorkers();  // as many as the system gives
    threads = pool.threads.load(std::memory_order_relaxed);
  }
  const int count = num_task ? num_task : threads;
  if (count == 1) {
    FreeSlot();
    return RunAlone(task, closure, count);
  }
  const int status = RunTogether(task, closure, count, threads, generation);
  // In the child of a fork the slot is free already, and may be another thread's.
  if (status != FUSIONX_FORKED) FreeSlot();
  return status;
}

int fusionx_parallel_barrier(int, FusionXGroup* shown) {
  return shown->num_task == 1 ? FUSIONX_OK : Meet(static_cast<Group*>(shown->sync_handle));
}

int fusionx_is_own_group(const FusionXGroup* group) { return group->sync_handle == group; }

int fusionx_pool_configure(int threads, const int* cores, int count, int is_pinned) {
  if (threads < 0 || threads > FUSIONX_MOST_THREADS || count < 0 || count > kMostCores) {
    return FUSIONX_BAD_ARGUMENT;
  }
  for (int at = 0; at < count; ++at) {
    if (cores[at] < 0 || cores[at] >= kMostCores) return FUSIONX_BAD_ARGUMENT;
  }
  if (!WaitForSlot()) return FUSIONX_INSIDE_TASK;
  EndWorkers();
  for (int at = 0; at < count; ++at) pool.cores[at] = cores[at];
  pool.core_count = count;
  pool.is_pinned = is_pinned;
  SetThreads(threads ? threads : count);
  const int status = StartWorkers();
  FreeSlot();
  return status;
}

int fusionx_pool_stop(void) {
  if (!WaitForSlot()) return FUSIONX_INSIDE_TASK;
  EndWorkers();
  FreeSlot();
  return FUSIONX_OK;
}

int fusionx_pool_threads(void) { return pool.threads.load(std::memory_order_relaxed); }

int fusionx_pool_workers(void) { return pool.workers.load(std::memory_order_relaxed); }

uint64_t fusionx_pool_launches(void) { return pool.launches.load(std::memory_order_relaxed); }

void fusionx_pool_set_spin(int worker_microseconds, int caller_microseconds) {
  pool.worker_spin.store(worker_microseconds, std::memory_order_relaxed);
  pool.caller_spin.store(caller_microseconds, std::memory_order_relaxed);
}

}  // extern "C"
