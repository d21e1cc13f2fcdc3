// How a thread waits: it looks for a while, then it sleeps.
#ifndef FUSIONX_WAITING_H_
#define FUSIONX_WAITING_H_

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include <atomic>

#if defined(__linux__) && !defined(FUSIONX_WITHOUT_FUTEX)
#define FUSIONX_FUTEX 1
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace fusionx {
namespace {

constexpr int kLooksBetweenClocks = 32;

#ifndef FUSIONX_FUTEX
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
#endif

// Sleeps while `word` is `seen`; may also wake up for no reason.
inline void SleepWhile(std::atomic<uint32_t>* word, uint32_t seen) {
#ifdef FUSIONX_FUTEX
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
#else
  pthread_mutex_lock(&mutex);
  if (word->load(std::memory_order_seq_cst) == seen) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
#endif
}

// Wakes at least `count` of those that sleep for `word`, which was changed before.
inline void Wake(std::atomic<uint32_t>* word, int count) {
#ifdef FUSIONX_FUTEX
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
#else
  (void)word, (void)count;
  pthread_mutex_lock(&mutex);
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
#endif
}

inline void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  __asm__ __volatile__("isb" ::: "memory");  // `yield` takes no time on most cores
#endif
}

inline int64_t Microseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000000 + now.tv_nsec / 1000;
}

// Looks for `is_over` for so long; whether it came true.
template <typename Condition>
bool SpinUntil(const Condition& is_over, int microseconds) {
  if (is_over()) return true;
  if (microseconds <= 0) return false;
  const int64_t end = Microseconds() + microseconds;
  do {
    for (int look = 0; look < kLooksBetweenClocks; ++look) {
      Pause();
      if (is_over()) return true;
    }
  } while (Microseconds() < end);
  return false;
}

// In the child of a fork: none of those that slept came along.
inline void ForgetSleepers() {
#ifndef FUSIONX_FUTEX
  pthread_mutex_init(&mutex, nullptr);
  pthread_cond_init(&changed, nullptr);
#endif
}

}  // namespace
}  // namespace fusionx

#endif  // FUSIONX_WAITING_H_
