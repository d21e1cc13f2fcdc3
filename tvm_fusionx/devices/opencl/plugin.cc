// Makes target.build.opencl of a TVM that was compiled without OpenCL return a module that runs.
//
// That TVM generates OpenCL source, but wraps it in a DeviceSourceModule, which only can be saved.
// Compiled into one library with TVM's own OpenCL runtime, this file registers a second version of
// target.build.opencl that hands the source to that runtime.
#include <dmlc/memory_io.h>
#include <tvm/runtime/module.h>
#include <tvm/runtime/registry.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <unordered_map>

#include "../meta_data.h"

namespace {
using tvm::runtime::Module;
using tvm::runtime::PackedFunc;
using tvm::runtime::Registry;
using tvm::runtime::TVMArgs;
using tvm::runtime::TVMRetValue;

// TVM declares every kernel of a model in front of each one, and the runtime makes a program of each:
// of a model of eighty kernels, these lines are more than half of the source that is compiled.
std::string WithoutDeclarations(const std::string& source) {
  std::istringstream lines(source);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const bool is_head = line.rfind("__kernel void ", 0) == 0;
    const bool is_declaration = is_head && line.compare(line.size() - 2, 2, ");") == 0;
    if (!is_declaration) kept += line + '\n';
  }
  return kept;
}

// Both kinds of module are saved as (format, functions, source), so that one can be loaded as the
// other without TVM's compiler headers, which the wheel does not ship.
Module Executable(Module source) {
  std::string bytes;
  dmlc::MemoryStringStream saved(&bytes);
  source->SaveToBinary(&saved);
  saved.Seek(0);
  std::string format, code;
  std::unordered_map<std::string, tvm::runtime::FunctionInfo> functions;
  dmlc::Stream& reader = saved;
  reader.Read(&format);
  reader.Read(&functions);
  reader.Read(&code);
  std::string changed;
  dmlc::MemoryStringStream stream(&changed);
  dmlc::Stream& writer = stream;
  writer.Write(format);
  writer.Write(functions);
  writer.Write(WithoutDeclarations(code));
  stream.Seek(0);
  const PackedFunc* load = Registry::Get("runtime.module.loadbinary_opencl");
  ICHECK(load != nullptr) << "TVM's OpenCL runtime is not part of this library";
  return (*load)(static_cast<void*>(static_cast<dmlc::Stream*>(&stream)));
}

// The programs of a module as the driver compiled them. Their bytes hold zeros, which no string that
// passes TVM's interface to Python survives: they go to a file and come from one here.
void SavePrograms(Module module, std::string path) {
  PackedFunc get = module->GetFunction("opencl.GetPreCompiledPrograms", false);
  ICHECK(get != nullptr) << "not an OpenCL module: " << module->type_key();
  std::string programs = get();
  std::ofstream file(path, std::ios::binary);
  file.write(programs.data(), static_cast<std::streamsize>(programs.size()));
  file.close();
  ICHECK(!file.fail()) << "cannot write " << path;
}

void LoadPrograms(Module module, std::string path) {
  PackedFunc set = module->GetFunction("opencl.SetPreCompiledPrograms", false);
  ICHECK(set != nullptr) << "not an OpenCL module: " << module->type_key();
  std::ifstream file(path, std::ios::binary);
  std::string programs((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  ICHECK(!file.fail() && !programs.empty()) << "cannot read " << path;
  set(TVMByteArray{programs.data(), programs.size()});
}

struct Install {
  Install() {
    Registry::Register("fusionx.opencl.save_programs", /*can_override=*/true)
        .set_body_typed(SavePrograms);
    Registry::Register("fusionx.opencl.load_programs", /*can_override=*/true)
        .set_body_typed(LoadPrograms);
    const PackedFunc* found = Registry::Get("target.build.opencl");
    if (found == nullptr) return;  // a TVM that only runs models generates no source
    PackedFunc generate = *found;
    Registry::Register("target.build.opencl", /*can_override=*/true)
        .set_body([generate](TVMArgs args, TVMRetValue* result) {
          TVMRetValue generated;
          generate.CallPacked(args, &generated);
          *result = Executable(generated.operator Module());
        });
    Registry::Register("fusionx.opencl.executable", /*can_override=*/true)
        .set_body_typed(Executable);
  }
} install;
}  // namespace
