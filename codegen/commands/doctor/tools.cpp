// tools.cpp: what compiles emitted programs, and what starts their ranks.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

#include "codegen/commands/doctor/findings.h"
#include "codegen/emit/build.h"
#include "meshrt/conv.h"
#include "meshrt/gemm.h"

namespace mesh {

namespace {

/// Where the shell would find a program; empty where it would not.
std::string found_in_path(const std::string& program) {
  if (program.find('/') != std::string::npos) return access(program.c_str(), X_OK) == 0 ? program : "";
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string candidate = std::filesystem::path(folder) / program;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

Finding needed(const std::string& subject, const std::string& program, const std::string& remedy) {
  const std::string path = found_in_path(program);
  if (path.empty()) return {Health::missing, subject, "there is no `" + program + "`", remedy};
  return {Health::good, subject, path, ""};
}

Finding compiler() {
  const char* chosen = std::getenv("CXX");
  const bool given = chosen != nullptr && *chosen != '\0';
  return needed("C++ compiler", given ? chosen : "c++", given ? "correct CXX" : "apt-get install g++, or set CXX");
}

Finding runtime() {
  const std::string folder = find_runtime();
  if (!folder.empty()) return {Health::good, "runtime", folder, ""};
  return {Health::missing, "runtime", "not beside meshc", "set MESHRT to the folder that it was installed to"};
}

Finding blas() {
  const std::string used = "products here: " + meshrt::multiply_name({true, true});
  if (dlopen("libopenblas.so.0", RTLD_LAZY | RTLD_LOCAL) != nullptr)
    return {Health::good, "OpenBLAS", "found; " + used, ""};
  return {Health::slow, "OpenBLAS", "not installed; " + used, "apt-get install libopenblas0"};
}

Finding convolutions() {
  const std::string used = "convolutions here: " + meshrt::conv_name({true, true});
  const std::string why_not = meshrt::why_no_onednn();
  if (why_not.empty()) return {Health::good, "oneDNN", used, ""};
  return {Health::slow, "oneDNN", why_not + "; " + used,
          "apt-get install libdnnl2, for models that convolve and, with AMX, for bf16"};
}

/// One line for all: a laptop needs none of them.
Finding launchers() {
  std::string found;
  for (const char* program : {"mpirun", "srun", "torchrun", "ssh"})
    if (!found_in_path(program).empty()) found += (found.empty() ? "" : ", ") + std::string(program);
  return {Health::good, "launchers", found.empty() ? "none but meshrun" : "meshrun, " + found, ""};
}

}  // namespace

std::vector<Finding> look_at_tools() {
  return {compiler(),     needed("pkg-config", "pkg-config", "apt-get install pkg-config"),
          runtime(),      blas(),
          convolutions(), launchers()};
}

}  // namespace mesh
