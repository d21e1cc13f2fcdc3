// Which core a thread runs on, and whether it runs at all: Linux tells, elsewhere nothing is known.
#ifndef FUSIONX_CORES_H_
#define FUSIONX_CORES_H_

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

namespace fusionx {
namespace {

#if defined(__linux__)

using Cores = cpu_set_t;

inline bool SetCores(pthread_t thread, const Cores& cores) {
#if defined(__BIONIC__)
  return !sched_setaffinity(pthread_gettid_np(thread), sizeof cores, &cores);
#else
  return !pthread_setaffinity_np(thread, sizeof cores, &cores);
#endif
}

inline bool GetCores(pthread_t thread, Cores* cores) {
#if defined(__BIONIC__)
  return !sched_getaffinity(pthread_gettid_np(thread), sizeof *cores, cores);
#else
  return !pthread_getaffinity_np(thread, sizeof *cores, cores);
#endif
}

// Lets a thread run on one core alone.
inline bool MoveTo(pthread_t thread, int core) {
  Cores cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  return SetCores(thread, cores);
}

// The core that the calling thread runs on; -1 where that is not known.
inline int OwnCore() {
  const int core = sched_getcpu();
  return core < CPU_SETSIZE ? core : -1;
}

// How long a thread has run on any core, in nanoseconds; -1 where that is not known.
inline int64_t TimeOnCores(pthread_t thread) {
  clockid_t clock;
  timespec time;
  if (pthread_getcpuclockid(thread, &clock) || clock_gettime(clock, &time)) return -1;
  return int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
}

#else

struct Cores {};
inline bool SetCores(pthread_t, const Cores&) { return false; }
inline bool GetCores(pthread_t, Cores*) { return false; }
inline bool MoveTo(pthread_t, int) { return false; }
inline int OwnCore() { return -1; }
inline int64_t TimeOnCores(pthread_t) { return -1; }

#endif

}  // namespace
}  // namespace fusionx

#endif  // FUSIONX_CORES_H_
