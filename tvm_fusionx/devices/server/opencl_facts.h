// What OpenCL offers on a device, asked of the driver itself, whether or not TVM has it.
#ifndef FUSIONX_OPENCL_FACTS_H_
#define FUSIONX_OPENCL_FACTS_H_

#include <dlfcn.h>

#include <cstdint>
#include <string>
#include <vector>

#include "facts.h"

namespace fusionx {

// Of CL/cl.h, which a device's system need not have.
constexpr uint32_t kPlatformName = 0x0902;
constexpr uint32_t kDeviceName = 0x102B;
constexpr uint32_t kDeviceVersion = 0x102F;
constexpr uint32_t kDeviceExtensions = 0x1030;
constexpr uint32_t kMostItems = 0x1004;
constexpr uint32_t kImageWidth = 0x1011;
constexpr uint32_t kImageHeight = 0x1012;
constexpr uint32_t kImageSupport = 0x1016;
constexpr uint32_t kLocalBytes = 0x1023;
constexpr uint64_t kAnyDevice = 0xFFFFFFFF;

class OpenCLDriver {
 public:
  // Looks where TVM's own wrapper looks.
  OpenCLDriver() {
    for (const char* name : {"libOpenCL.so", "libOpenCL.so.1", "/vendor/lib64/libOpenCL.so",
                             "/system/vendor/lib64/libOpenCL.so"}) {
      library_ = dlopen(name, RTLD_NOW);
      if (library_) break;
    }
    Find("clGetPlatformIDs", &platform_ids_);
    Find("clGetPlatformInfo", &platform_info_);
    Find("clGetDeviceIDs", &device_ids_);
    Find("clGetDeviceInfo", &device_info_);
  }

  // Returns a JSON list with one object for each device.
  std::string Facts() const {
    std::string out;
    if (!platform_ids_ || !platform_info_ || !device_ids_ || !device_info_) return "[]";
    for (void* platform : List([this](uint32_t room, void** ids, uint32_t* count) {
           return platform_ids_(room, ids, count);
         })) {
      for (void* device : List([this, platform](uint32_t room, void** ids, uint32_t* count) {
             return device_ids_(platform, kAnyDevice, room, ids, count);
           })) {
        out += (out.empty() ? "{" : ", {");
        out += "\"platform\": " + Quoted(Text(platform_info_, platform, kPlatformName)) +
               ", \"device\": " + Quoted(Text(device_info_, device, kDeviceName)) +
               ", \"version\": " + Quoted(Text(device_info_, device, kDeviceVersion)) +
               ", \"extensions\": " + Quoted(Text(device_info_, device, kDeviceExtensions)) +
               ", \"images\": " + Quoted(Images(device)) +
               ", \"items\": " + Quoted(std::to_string(Number(device, kMostItems))) +
               ", \"local_bytes\": " + Quoted(std::to_string(Number(device, kLocalBytes))) + "}";
      }
    }
    return "[" + out + "]";
  }

 private:
  using PlatformIds = int32_t (*)(uint32_t, void**, uint32_t*);
  using DeviceIds = int32_t (*)(void*, uint64_t, uint32_t, void**, uint32_t*);
  using Info = int32_t (*)(void*, uint32_t, size_t, void*, size_t*);

  template <typename Function>
  void Find(const char* name, Function* function) {
    if (library_) *function = reinterpret_cast<Function>(dlsym(library_, name));
  }

  template <typename Ask>
  static std::vector<void*> List(Ask ask) {
    uint32_t count = 0;
    if (ask(0, nullptr, &count) || !count) return {};
    std::vector<void*> ids(count);
    if (ask(count, ids.data(), nullptr)) return {};
    return ids;
  }

  static std::string Text(Info info, void* object, uint32_t what) {
    size_t length = 0;
    if (info(object, what, 0, nullptr, &length) || !length) return "";
    std::string text(length, '\0');
    if (info(object, what, length, &text[0], nullptr)) return "";
    return text.c_str();
  }

  std::string Images(void* device) const {
    if (!Number(device, kImageSupport)) return "none";
    return std::to_string(Number(device, kImageWidth)) + " x " +
           std::to_string(Number(device, kImageHeight));
  }

  // A number of 4 or 8 bytes; zero where the driver does not tell.
  uint64_t Number(void* device, uint32_t what) const {
    uint64_t number = 0;
    return device_info_(device, what, sizeof(number), &number, nullptr) ? 0 : number;
  }

  void* library_ = nullptr;
  PlatformIds platform_ids_ = nullptr;
  Info platform_info_ = nullptr;
  DeviceIds device_ids_ = nullptr;
  Info device_info_ = nullptr;
};

}  // namespace fusionx

#endif  // FUSIONX_OPENCL_FACTS_H_
