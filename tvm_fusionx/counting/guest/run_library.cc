// FOLDER: one inference of the library there, after one to warm up, between the marks of count.c.
//
// The folder holds the members of a library file, and `inputs.params`; `outputs.params` is written.
// FOLDER FUNCTION WORD...: prints what a function of the library there answers to each number.
#include <dlpack/dlpack.h>
#include <tvm/runtime/container/map.h>
#include <tvm/runtime/container/string.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/ndarray.h>
#include <tvm/runtime/packed_func.h>
#include <tvm/runtime/registry.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace fusionx {

using tvm::runtime::Map;
using tvm::runtime::Module;
using tvm::runtime::NDArray;
using tvm::runtime::PackedFunc;
using tvm::runtime::Registry;
using tvm::runtime::String;

// Those of count.c.
constexpr int kWarm = 0x7ee10000;
constexpr int kStart = 0x7ee10001;
constexpr int kStop = 0x7ee10002;

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void SetAll(const PackedFunc& load_params, const std::string& path) {
  const std::string bytes = Read(path);
  load_params(TVMByteArray{bytes.data(), bytes.size()});
}

const PackedFunc& Global(const char* name) {
  const PackedFunc* found = Registry::Get(name);
  if (found == nullptr) throw std::runtime_error(std::string("this runtime has no ") + name);
  return *found;
}

void Run(const std::string& folder) {
  Module code = Module::LoadFromFile(folder + "/mod.so");
  const std::string graph = Read(folder + "/mod.json");
  Module executor =
      Global("tvm.graph_executor.create")(graph, code, static_cast<int>(kDLCPU), 0);
  SetAll(executor.GetFunction("load_params"), folder + "/mod.params");
  SetAll(executor.GetFunction("load_params"), folder + "/inputs.params");
  const PackedFunc run = executor.GetFunction("run");
  close(kWarm);
  run();
  close(kStart);
  run();
  close(kStop);
  const PackedFunc get_output = executor.GetFunction("get_output");
  const int count = executor.GetFunction("get_num_outputs")();
  Map<String, NDArray> outputs;
  for (int index = 0; index < count; ++index) {
    outputs.Set(std::to_string(index), get_output(index));
  }
  const std::string bytes = Global("runtime.SaveParams")(outputs);
  std::ofstream(folder + "/outputs.params", std::ios::binary) << bytes;
}

void Ask(const std::string& folder, const char* name, int count, char** numbers) {
  Module code = Module::LoadFromFile(folder + "/mod.so");
  const PackedFunc function = code.GetFunction(name);
  if (function == nullptr) throw std::runtime_error(std::string("no function ") + name);
  for (int place = 0; place < count; ++place) {
    const int64_t answer = function(static_cast<int64_t>(std::stoll(numbers[place])));
    std::printf("%lld\n", static_cast<long long>(answer));
  }
}

}  // namespace fusionx

int main(int count, char** words) {
  if (count < 2) return 2;
  try {
    if (count == 2) {
      fusionx::Run(words[1]);
    } else {
      fusionx::Ask(words[1], words[2], count - 3, words + 3);
    }
  } catch (const std::exception& error) {
    // Behind it TVM tells where in its code that was.
    const std::string what = error.what();
    std::fprintf(stderr, "%s\n", what.substr(0, what.find("\nStack trace:")).c_str());
    return 1;
  }
  return 0;
}
