// Puts the pool into the place of TVM's, in a process that has TVM's runtime.
#ifndef FUSIONX_TVM_POOL_H_
#define FUSIONX_TVM_POOL_H_

#include "pool.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FUSIONX_NO_TVM (-201)       // the runtime is not loaded, or lacks its launcher
#define FUSIONX_NOT_LOADED (-202)   // no such library is loaded, or TVM did not compile it

// Gives every library that TVM compiled, those loaded already and those to come, kernels compiled in
// this process that did not run yet among them, our launcher. `runtime` is the path of the loaded
// libtvm or libtvm_runtime; null for the one that the program itself is linked to.
int fusionx_tvm_install(const char* runtime);

// Takes that back. What runs by a copy of our launcher's address still calls it, and it calls TVM's.
int fusionx_tvm_uninstall(void);

// Whether our launcher, where it is installed, uses our pool, or TVM's; answers what it did before.
int fusionx_tvm_use(int is_ours);

// Gives one loaded library our pool, or TVM's launcher, whatever the process has; until it is
// changed again.
int fusionx_tvm_install_in(const char* runtime, const char* library, int is_ours);

// What kernels call, as TVMBackendParallelLaunch and TVMBackendParallelBarrier.
int fusionx_tvm_launch(FusionXTask task, void* closure, int num_task);
int fusionx_tvm_launch_ours(FusionXTask task, void* closure, int num_task);
int fusionx_tvm_barrier(int task_id, FusionXGroup* group);

#ifdef __cplusplus
}
#endif

#endif  // FUSIONX_TVM_POOL_H_
