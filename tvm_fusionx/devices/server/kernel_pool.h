// A session's kernels on our pool of threads, which follows what a client tells TVM's.
#ifndef FUSIONX_KERNEL_POOL_H_
#define FUSIONX_KERNEL_POOL_H_

#include <tvm/runtime/c_runtime_api.h>

#include <sched.h>

#include <cstdio>

#include "tvm_pool.h"

namespace fusionx {

constexpr char kConfigure[] = "runtime.config_threadpool";

inline TVMFunctionHandle& TvmsConfigure() {
  static TVMFunctionHandle function = nullptr;
  return function;
}

// What stands in for TVM's function: TVM's pool first, then ours with as many threads. TVM has by then
// given the calling thread the cores that were meant, big or little; the workers take these too.
inline int ConfigurePool(TVMValue* args, int* types, int count, TVMRetValueHandle, void*) {
  TVMValue result;
  int type = kTVMNullptr;
  if (TVMFuncCall(TvmsConfigure(), args, types, count, &result, &type)) return -1;
  TVMFunctionHandle threads = nullptr;
  if (TVMFuncGetGlobal("runtime.NumThreads", &threads) || !threads) return -1;
  if (TVMFuncCall(threads, nullptr, nullptr, 0, &result, &type)) return -1;
  cpu_set_t mask;
  int cores[CPU_SETSIZE], found = 0;
  if (!sched_getaffinity(0, sizeof mask, &mask)) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &mask)) cores[found++] = core;
    }
  }
  const int64_t most = FUSIONX_MOST_THREADS;
  const int64_t wanted = result.v_int64 < most ? result.v_int64 : most;
  fusionx_pool_configure(static_cast<int>(wanted), cores, found, 0);
  return 0;
}

// How many parallel kernels have run on our pool.
inline int PoolLaunches(TVMValue*, int*, int, TVMRetValueHandle result, void*) {
  TVMValue value;
  value.v_int64 = static_cast<int64_t>(fusionx_pool_launches());
  int type = kDLInt;
  return TVMCFuncSetReturn(result, &value, &type, 1);
}

// Puts our pool into the place of TVM's in this process; says so where it does not fit.
inline void UseOwnPool() {
  TVMFunctionHandle configure = nullptr;
  if (fusionx_tvm_install(nullptr) || TVMFuncGetGlobal(kConfigure, &TvmsConfigure()) ||
      !TvmsConfigure() || TVMFuncCreateFromCFunc(ConfigurePool, nullptr, nullptr, &configure) ||
      TVMFuncRegisterGlobal(kConfigure, configure, 1)) {
    fprintf(stderr, "kernels run on TVM's pool of threads: ours does not fit this runtime\n");
    fusionx_tvm_uninstall();
  }
}

}  // namespace fusionx

#endif  // FUSIONX_KERNEL_POOL_H_
