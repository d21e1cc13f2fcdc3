// What a device says of itself: one JSON object, and its temperature.
#ifndef FUSIONX_FACTS_H_
#define FUSIONX_FACTS_H_

#include <dirent.h>
#include <sys/utsname.h>
#include <tvm/runtime/c_runtime_api.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>

#ifdef __ANDROID__
#include <sys/system_properties.h>
#endif

namespace fusionx {

inline std::string Quoted(const std::string& text) {
  std::string out = "\"";
  for (unsigned char each : text) {
    if (each == '"' || each == '\\') out += '\\';
    if (each >= ' ') out += static_cast<char>(each);
  }
  return out + "\"";
}

// Names the processor as /proc/cpuinfo does, in the words of x86 or of Arm.
inline std::string CpuName() {
#ifdef __ANDROID__
  char model[PROP_VALUE_MAX] = "";
  if (__system_property_get("ro.soc.model", model) > 0) return model;
#endif
  std::ifstream file("/proc/cpuinfo");
  std::string line, part;
  while (std::getline(file, line)) {
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(colon + 2);
    if (!line.compare(0, 10, "model name") || !line.compare(0, 8, "Hardware")) return value;
    if (!line.compare(0, 8, "CPU part")) part = "CPU part " + value;
  }
  return part;
}

// Names the emulator this runs in, as who started it says; empty on a device.
inline std::string Emulator() {
  const char* name = std::getenv("FUSIONX_EMULATOR");
  return name ? name : "";
}

// Counts all cores, as a hot phone takes some off line: it stays the same device.
inline std::string Facts() {
  utsname system{};
  uname(&system);
#ifdef __ANDROID__
  const std::string name = "Android";
#else
  const std::string name = system.sysname;
#endif
  return "{\"system\": " + Quoted(name) + ", \"arch\": " + Quoted(system.machine) +
         ", \"cpu\": " + Quoted(CpuName()) +
         ", \"cores\": " + std::to_string(sysconf(_SC_NPROCESSORS_CONF)) +
         ", \"emulator\": " + Quoted(Emulator()) +
         ", \"runtime\": " + Quoted(TVM_VERSION) + "}";
}

// Returns degrees Celsius of the processor's hottest thermal zone; NaN where none can be read.
inline double Temperature() {
  const std::string root = "/sys/class/thermal/";
  double hottest = std::nan("");
  DIR* folder = opendir(root.c_str());
  if (!folder) return hottest;
  while (dirent* entry = readdir(folder)) {
    const std::string zone = root + entry->d_name;
    std::string kind;
    double millidegrees = 0;
    if (!(std::ifstream(zone + "/type") >> kind)) continue;
    const bool is_processor = kind.find("cpu") != std::string::npos ||
                              kind.find("soc") != std::string::npos ||
                              kind.find("tsens") != std::string::npos;
    if (!is_processor || !(std::ifstream(zone + "/temp") >> millidegrees)) continue;
    if (!(millidegrees / 1000 <= hottest)) hottest = millidegrees / 1000;
  }
  closedir(folder);
  return hottest;
}

}  // namespace fusionx

#endif  // FUSIONX_FACTS_H_
