// One session: a child process with a folder of its own, watched until it ends or must.
#ifndef FUSIONX_SESSION_H_
#define FUSIONX_SESSION_H_

#include <dirent.h>
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tvm/runtime/c_runtime_api.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "connection.h"
#include "facts.h"
#include "kernel_pool.h"
#include "opencl_facts.h"

namespace fusionx {

// A child whose client is gone may be inside a kernel, which may never end.
constexpr double kSecondsAfterHangUp = 2.0;
constexpr int kPollMilliseconds = 20;

inline std::string& SessionFolder() {
  static std::string folder;
  return folder;
}

inline std::string InFolder(const std::string& name) {
  return SessionFolder() + "/" + name.substr(name.rfind('/') + 1);
}

inline int ReturnText(TVMRetValueHandle result, const std::string& text) {
  TVMValue value;
  value.v_str = text.c_str();
  int type = kTVMStr;
  return TVMCFuncSetReturn(result, &value, &type, 1);
}

inline int WorkPath(TVMValue* args, int*, int, TVMRetValueHandle result, void*) {
  return ReturnText(result, InFolder(args[0].v_str));
}

inline int LoadModule(TVMValue* args, int*, int, TVMRetValueHandle result, void*) {
  TVMModuleHandle module = nullptr;
  if (TVMModLoadFromFile(InFolder(args[0].v_str).c_str(), "", &module)) return -1;
  TVMValue value;
  value.v_handle = module;
  int type = kTVMModuleHandle;
  const int failed = TVMCFuncSetReturn(result, &value, &type, 1);
  TVMModFree(module);
  return failed;
}

inline int DeviceFacts(TVMValue*, int*, int, TVMRetValueHandle result, void*) {
  return ReturnText(result, Facts());
}

inline int DeviceTemperature(TVMValue*, int*, int, TVMRetValueHandle result, void*) {
  TVMValue value;
  value.v_float64 = Temperature();
  int type = kDLFloat;
  return TVMCFuncSetReturn(result, &value, &type, 1);
}

inline int DeviceOpenCL(TVMValue*, int*, int, TVMRetValueHandle result, void*) {
  return ReturnText(result, OpenCLDriver().Facts());
}

// Registers what a client asks of a server; the rest is in TVM's runtime.
inline bool RegisterFunctions() {
  const struct {
    const char* name;
    TVMPackedCFunc function;
  } table[] = {{"tvm.rpc.server.workpath", WorkPath},
               {"tvm.rpc.server.load_module", LoadModule},
               {"fusionx.device.facts", DeviceFacts},
               {"fusionx.device.temperature", DeviceTemperature},
               {"fusionx.device.opencl", DeviceOpenCL},
               {"fusionx.device.pool_launches", PoolLaunches}};
  for (const auto& row : table) {
    TVMFunctionHandle handle = nullptr;
    if (TVMFuncCreateFromCFunc(row.function, nullptr, nullptr, &handle) ||
        TVMFuncRegisterGlobal(row.name, handle, 1)) {
      return false;
    }
  }
  return true;
}

inline int CallGlobal(const char* name, TVMValue* values, int* types, int count) {
  TVMFunctionHandle function = nullptr;
  if (TVMFuncGetGlobal(name, &function) || !function) return -1;
  TVMValue result;
  int type = kTVMNullptr;
  return TVMFuncCall(function, values, types, count, &result, &type);
}

// Sends the client of `connection` an error in the place of the answer that it waits for.
inline void ReturnError(const Connection& connection, const std::string& message) {
  TVMValue values[2];
  int types[2] = {kTVMArgInt, kTVMStr};
  values[0].v_int64 = connection.number();
  values[1].v_str = message.c_str();
  CallGlobal("rpc.ReturnException", values, types, 2);
}

// What the child does: load the plug-ins, then answer until the client hangs up.
[[noreturn]] inline void RunChild(const Connection& connection,
                                  const std::vector<std::string>& libraries, bool has_own_pool) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (chdir(SessionFolder().c_str())) _exit(3);
  for (const std::string& library : libraries) {
    if (dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL)) continue;
    ReturnError(connection, std::string("plug-in: ") + dlerror());
    _exit(4);
  }
  if (has_own_pool) UseOwnPool();
  TVMValue value;
  value.v_int64 = connection.number();
  int type = kTVMArgInt;
  const int failed = CallGlobal("rpc.ServerLoop", &value, &type, 1);
  if (failed) fprintf(stderr, "session: %s\n", TVMGetLastError());
  fflush(nullptr);
  _exit(failed ? 1 : 0);
}

inline void EmptyAndRemove(const std::string& folder) {
  if (DIR* listed = opendir(folder.c_str())) {
    while (dirent* entry = readdir(listed)) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") unlink((folder + "/" + name).c_str());
    }
    closedir(listed);
  }
  rmdir(folder.c_str());
}

inline bool HasHungUp(const Connection& connection) {
  pollfd watched{connection.number(), POLLRDHUP, 0};
  return poll(&watched, 1, kPollMilliseconds) > 0 &&
         (watched.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

// Waits for the child; kills it when its time is over or its client is gone.
inline void Watch(pid_t child, const Connection& connection, double timeout_seconds) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point started = Clock::now();
  Clock::time_point hung_up = Clock::time_point::max();
  const auto since = [](Clock::time_point then) {
    return std::chrono::duration<double>(Clock::now() - then).count();
  };
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (hung_up == Clock::time_point::max()) {
      if (HasHungUp(connection)) hung_up = Clock::now();
    } else {
      usleep(kPollMilliseconds * 1000);
    }
    const bool is_alone =
        hung_up != Clock::time_point::max() && since(hung_up) > kSecondsAfterHangUp;
    const bool is_late = timeout_seconds > 0 && since(started) > timeout_seconds;
    if (!is_alone && !is_late) continue;
    if (is_late) {
      char message[128];
      snprintf(message, sizeof message,
               "RPCSessionTimeoutError: the session of %g s has expired", timeout_seconds);
      ReturnError(connection, message);
    }
    fprintf(stderr, "session: ended by force, %s\n", is_late ? "its time is over" : "left alone");
    kill(-child, SIGKILL);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    break;
  }
  if (WIFSIGNALED(status)) fprintf(stderr, "session: signal %d\n", WTERMSIG(status));
}

// Serves one session from beginning to end. `others` are open files that a child must not keep.
inline void ServeSession(const Connection& connection, const std::vector<int>& others,
                         const std::string& work_folder, double timeout_seconds,
                         const std::vector<std::string>& libraries, bool has_own_pool) {
  std::string folder = work_folder + "/fusionx-session-XXXXXX";
  if (!mkdtemp(&folder[0])) {
    ReturnError(connection, "no folder can be made in " + work_folder);
    return;
  }
  SessionFolder() = folder;
  fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    for (int number : others) close(number);
    RunChild(connection, libraries, has_own_pool);
  }
  if (child < 0) {
    ReturnError(connection, "the device cannot start another process");
  } else {
    Watch(child, connection, timeout_seconds);
  }
  EmptyAndRemove(folder);
}

}  // namespace fusionx

#endif  // FUSIONX_SESSION_H_
