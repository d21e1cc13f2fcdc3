// TVM gives each library that it loads, and each module that it compiles in memory, the addresses of
// its launcher and its barrier, in two variables of the library. It reads them from two places of its
// own table of addresses (the global offset table). We change these two places, and the variables of
// the libraries that were loaded before; both are data, no code is changed.
#include "tvm_pool.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

namespace {

using Launch = int (*)(FusionXTask, void*, int);
using Barrier = int (*)(int, FusionXGroup*);

constexpr size_t kMessage = 1024;
constexpr int kMostPlaces = 16;
constexpr int kMostLibraries = 4096;

#if defined(__x86_64__)
constexpr unsigned kAddressKinds[] = {R_X86_64_GLOB_DAT, R_X86_64_64};
#elif defined(__aarch64__)
constexpr unsigned kAddressKinds[] = {R_AARCH64_GLOB_DAT, R_AARCH64_ABS64};
#else
constexpr unsigned kAddressKinds[] = {~0u};
#endif

struct Runtime {
  std::atomic<Launch> launch;
  std::atomic<Barrier> barrier;
  const char* (*last_error)();
  void (*set_last_error)(const char*);
};

Runtime tvm;
std::atomic<int> is_ours{0};

// A place of TVM's table, and the pages that must be made writable for it; none where they are.
struct Place {
  void** address;
  bool is_launch;
  bool is_protected;
};

struct Search {
  const void* inside;  // an address of the object that is looked for
  Place places[kMostPlaces];
  int count;
};

bool Holds(const dl_phdr_info& object, const void* address) {
  const auto place = reinterpret_cast<uintptr_t>(address);
  for (int at = 0; at < object.dlpi_phnum; ++at) {
    const auto& part = object.dlpi_phdr[at];
    const uintptr_t start = object.dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD && place >= start && place < start + part.p_memsz) return true;
  }
  return false;
}

uintptr_t PageOf(uintptr_t address) {
  return address & ~static_cast<uintptr_t>(sysconf(_SC_PAGESIZE) - 1);
}

bool IsProtected(const dl_phdr_info& object, uintptr_t address) {
  for (int at = 0; at < object.dlpi_phnum; ++at) {
    const auto& part = object.dlpi_phdr[at];
    if (part.p_type != PT_GNU_RELRO) continue;
    const uintptr_t start = object.dlpi_addr + part.p_vaddr;
    // The loader leaves the last page alone where it holds something else too.
    if (address >= PageOf(start) && address < PageOf(start + part.p_memsz)) return true;
  }
  return false;
}

// Finds the places of an object's table that hold the launcher's and the barrier's address.
int FindPlaces(dl_phdr_info* object, size_t, void* argument) {
  Search* search = static_cast<Search*>(argument);
  if (!Holds(*object, search->inside)) return 0;
  const ElfW(Dyn)* entry = nullptr;
  for (int at = 0; at < object->dlpi_phnum; ++at) {
    const auto& part = object->dlpi_phdr[at];
    if (part.p_type == PT_DYNAMIC) {
      entry = reinterpret_cast<const ElfW(Dyn)*>(object->dlpi_addr + part.p_vaddr);
    }
  }
  uintptr_t relocations = 0, symbols = 0, names = 0;
  size_t bytes = 0;
  for (; entry && entry->d_tag != DT_NULL; ++entry) {
    uintptr_t value = entry->d_un.d_ptr;
    if (entry->d_tag == DT_RELASZ) bytes = value;
    // glibc writes addresses here, other loaders leave what the file has.
    if (value < object->dlpi_addr) value += object->dlpi_addr;
    if (entry->d_tag == DT_RELA) relocations = value;
    if (entry->d_tag == DT_SYMTAB) symbols = value;
    if (entry->d_tag == DT_STRTAB) names = value;
  }
  if (!relocations || !symbols || !names) return 1;
  const auto* row = reinterpret_cast<const Elf64_Rela*>(relocations);
  for (size_t left = bytes / sizeof *row; left && search->count < kMostPlaces; --left, ++row) {
    const unsigned kind = ELF64_R_TYPE(row->r_info);
    bool is_address = false;
    for (unsigned known : kAddressKinds) is_address = is_address || kind == known;
    const auto& symbol = reinterpret_cast<const Elf64_Sym*>(symbols)[ELF64_R_SYM(row->r_info)];
    const char* name = reinterpret_cast<const char*>(names) + symbol.st_name;
    const bool is_launch = !strcmp(name, "TVMBackendParallelLaunch");
    if (!is_address || (!is_launch && strcmp(name, "TVMBackendParallelBarrier"))) continue;
    const uintptr_t address = object->dlpi_addr + row->r_offset;
    search->places[search->count++] = {reinterpret_cast<void**>(address), is_launch,
                                       IsProtected(*object, address)};
  }
  return 1;
}

bool Write(const Place& place, void* value) {
  const uintptr_t start = PageOf(reinterpret_cast<uintptr_t>(place.address));
  void* page = reinterpret_cast<void*>(start);
  const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (place.is_protected && mprotect(page, size, PROT_READ | PROT_WRITE)) return false;
  __atomic_store_n(place.address, value, __ATOMIC_RELEASE);
  if (place.is_protected) mprotect(page, size, PROT_READ);
  return true;
}

void* LaunchOf(bool ours) {
  return reinterpret_cast<void*>(ours ? fusionx_tvm_launch : tvm.launch.load());
}

void* BarrierOf(bool ours) {
  return reinterpret_cast<void*>(ours ? fusionx_tvm_barrier : tvm.barrier.load());
}

int WriteTable(bool ours) {
  Search search{};
  search.inside = reinterpret_cast<const void*>(tvm.launch.load());
  dl_iterate_phdr(FindPlaces, &search);
  int launches = 0, barriers = 0;
  for (int at = 0; at < search.count; ++at) {
    const Place& place = search.places[at];
    if (!Write(place, place.is_launch ? LaunchOf(ours) : BarrierOf(ours))) return FUSIONX_NO_TVM;
    ++(place.is_launch ? launches : barriers);
  }
  return launches && barriers ? FUSIONX_OK : FUSIONX_NO_TVM;
}

// What a library's variables shall hold.
enum class Wanted {
  kTvm,       // in the place of what the process has
  kProcess,   // in the place of TVM's
  kTvmAlone,  // this library's own choice
  kOursAlone
};

// Writes both variables of a library that TVM compiled; whether it is one.
bool WriteLibrary(const char* path, Wanted wanted) {
  void* library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return false;
  void** launch = static_cast<void**>(dlsym(library, "__TVMBackendParallelLaunch"));
  void** barrier = static_cast<void**>(dlsym(library, "__TVMBackendParallelBarrier"));
  dlclose(library);  // it was loaded before
  if (!launch) return false;
  void* const now = __atomic_load_n(launch, __ATOMIC_ACQUIRE);
  void* const shared = reinterpret_cast<void*>(fusionx_tvm_launch);
  void* next = nullptr;
  if (wanted == Wanted::kTvm && now == shared) next = LaunchOf(false);
  if (wanted == Wanted::kProcess && now == LaunchOf(false)) next = shared;
  if (wanted == Wanted::kTvmAlone) next = LaunchOf(false);
  if (wanted == Wanted::kOursAlone) next = reinterpret_cast<void*>(fusionx_tvm_launch_ours);
  if (!next) return true;
  // Ours answers for groups of both launchers, so it is there before the launcher and stays.
  if (barrier) __atomic_store_n(barrier, BarrierOf(true), __ATOMIC_RELEASE);
  __atomic_store_n(launch, next, __ATOMIC_RELEASE);
  return true;
}

struct Names {
  char* list[kMostLibraries];
  int count;
};

int Collect(dl_phdr_info* object, size_t, void* argument) {
  Names* names = static_cast<Names*>(argument);
  if (object->dlpi_name && object->dlpi_name[0] && names->count < kMostLibraries) {
    names->list[names->count++] = strdup(object->dlpi_name);
  }
  return 0;
}

void WriteLibraries(Wanted wanted) {
  Names* names = static_cast<Names*>(calloc(1, sizeof(Names)));
  if (!names) return;
  dl_iterate_phdr(Collect, names);  // not opened in there: the loader holds a lock
  for (int at = 0; at < names->count; ++at) {
    WriteLibrary(names->list[at], wanted);
    free(names->list[at]);
  }
  free(names);
}

bool FindRuntime(const char* runtime) {
  if (tvm.launch.load()) return true;
  void* library = runtime ? dlopen(runtime, RTLD_LAZY | RTLD_NOLOAD) : RTLD_DEFAULT;
  if (runtime && !library) return false;
  void* launch = dlsym(library, "TVMBackendParallelLaunch");
  void* barrier = dlsym(library, "TVMBackendParallelBarrier");
  if (!launch || !barrier) return false;
  tvm.last_error = reinterpret_cast<const char* (*)()>(dlsym(library, "TVMGetLastError"));
  tvm.set_last_error =
      reinterpret_cast<void (*)(const char*)>(dlsym(library, "TVMAPISetLastError"));
  tvm.barrier.store(reinterpret_cast<Barrier>(barrier));
  tvm.launch.store(reinterpret_cast<Launch>(launch));
  return true;
}

// A launch of TVM's: an error's text is the thread's own, and is brought to the caller's.
struct Call {
  FusionXTask task;
  void* closure;
  pthread_t caller;
  std::atomic<int> has_failed;
  bool is_here;  // the error is the caller's own, and stands where TVM looks for it
  char message[kMessage];
};

constexpr char kNoText[] =
    "TVMError: what a parallel kernel called raised an exception of Python on a worker; it is shown "
    "with fx.threads(1)";

int RunTask(int id, FusionXGroup* group, void* argument) {
  Call* call = static_cast<Call*>(argument);
  const int code = call->task(id, group, call->closure);
  if (code && !call->has_failed.exchange(1)) {
    call->is_here = pthread_equal(call->caller, pthread_self());
    // Python's exceptions have none, and stay with their thread.
    const char* text = tvm.last_error ? tvm.last_error() : nullptr;
    snprintf(call->message, kMessage, "%s", text ? text : kNoText);
  }
  return code;
}

const char* Explain(int code, const Call& call) {
  switch (code) {
    case FUSIONX_NO_BARRIER:
      return "TVMError: a kernel waits at a barrier for tasks that do not run side by side; use "
             "fx.threads(pool=\"tvm\") for it";
    case FUSIONX_FORKED:
      return "TVMError: a task of a parallel kernel forked; its launch ends in the child";
    case FUSIONX_BAD_ARGUMENT:
      return "TVMError: a parallel launch of a negative number of tasks";
    default:
      return call.message;
  }
}

}  // namespace

extern "C" {

int fusionx_tvm_launch_ours(FusionXTask task, void* closure, int num_task) {
  Call call;
  call.task = task;
  call.closure = closure;
  call.caller = pthread_self();
  call.is_here = false;
  call.has_failed.store(0, std::memory_order_relaxed);
  call.message[0] = 0;
  const int code = fusionx_parallel_launch(RunTask, &call, num_task);
  if (code && !call.is_here && tvm.set_last_error) tvm.set_last_error(Explain(code, call));
  return code;
}

int fusionx_tvm_launch(FusionXTask task, void* closure, int num_task) {
  return is_ours.load(std::memory_order_relaxed) ? fusionx_tvm_launch_ours(task, closure, num_task)
                                                 : tvm.launch.load()(task, closure, num_task);
}

int fusionx_tvm_barrier(int task_id, FusionXGroup* group) {
  // The pools may be switched between the launch and this.
  return fusionx_is_own_group(group) ? fusionx_parallel_barrier(task_id, group)
                                     : tvm.barrier.load()(task_id, group);
}

int fusionx_tvm_use(int ours) { return is_ours.exchange(ours); }

int fusionx_tvm_install(const char* runtime) {
  if (!FindRuntime(runtime)) return FUSIONX_NO_TVM;
  const int code = WriteTable(true);
  if (code) {
    WriteTable(false);
    return code;
  }
  is_ours.store(1);
  WriteLibraries(Wanted::kProcess);
  return FUSIONX_OK;
}

int fusionx_tvm_uninstall(void) {
  is_ours.store(0);
  if (!tvm.launch.load()) return FUSIONX_OK;
  const int code = WriteTable(false);
  WriteLibraries(Wanted::kTvm);
  return code;
}

int fusionx_tvm_install_in(const char* runtime, const char* library, int ours) {
  if (!FindRuntime(runtime)) return FUSIONX_NO_TVM;
  const Wanted wanted = ours ? Wanted::kOursAlone : Wanted::kTvmAlone;
  return WriteLibrary(library, wanted) ? FUSIONX_OK : FUSIONX_NOT_LOADED;
}

}  // extern "C"
