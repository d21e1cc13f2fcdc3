// The tasks of one launch as they see themselves: how many, what went wrong, and where they meet.
#ifndef FUSIONX_GROUP_H_
#define FUSIONX_GROUP_H_

#include <sched.h>
#include <stdint.h>

#include <atomic>

#include "pool.h"
#include "waiting.h"

namespace fusionx {
namespace {

constexpr int kMeetingSpinMicroseconds = 50;

struct Group {
  FusionXGroup shown;  // first: its address is that of the group, and its sync_handle
  int members;         // tasks that run side by side; 0 where a barrier could never open
  std::atomic<int> status;
  std::atomic<uint32_t> arrived;
  std::atomic<uint32_t> opened;
};

inline void Begin(Group* group, int num_task, int members) {
  group->shown.sync_handle = group;
  group->shown.num_task = num_task;
  group->members = members;
  group->status.store(0, std::memory_order_relaxed);
  group->arrived.store(0, std::memory_order_relaxed);
  group->opened.store(0, std::memory_order_relaxed);
}

inline void Note(Group* group, int code) {
  int none = 0;
  if (code) group->status.compare_exchange_strong(none, code, std::memory_order_relaxed);
}

// Runs all tasks of a launch on the calling thread.
inline int RunAlone(FusionXTask task, void* closure, int num_task) {
  const int count = num_task ? num_task : 1;
  Group group;
  Begin(&group, count, count == 1);
  for (int id = 0; id < count; ++id) Note(&group, task(id, &group.shown, closure));
  return group.status.load(std::memory_order_relaxed);
}

// Waits until all tasks of the group have come here.
inline int Meet(Group* group) {
  if (!group->members) {
    Note(group, FUSIONX_NO_BARRIER);
    return FUSIONX_NO_BARRIER;
  }
  const uint32_t opened = group->opened.load(std::memory_order_acquire);
  const uint32_t all = static_cast<uint32_t>(group->shown.num_task);
  if (group->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == all) {
    group->arrived.store(0, std::memory_order_relaxed);
    group->opened.store(opened + 1, std::memory_order_release);
    return FUSIONX_OK;
  }
  // Each of those that wait holds one task, and there is a thread for each: all will begin.
  const auto is_open = [group, opened] {
    return group->opened.load(std::memory_order_acquire) != opened;
  };
  while (!SpinUntil(is_open, kMeetingSpinMicroseconds)) sched_yield();
  return FUSIONX_OK;
}

}  // namespace
}  // namespace fusionx

#endif  // FUSIONX_GROUP_H_
