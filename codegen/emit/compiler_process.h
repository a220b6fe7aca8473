// compiler_process.h: the C++ compiler as a child that ends when this process is asked to end.
#pragma once
#include <filesystem>
#include <string>

namespace mesh {

struct CompilerEnd {
  int status = 0;  // as wait() gives it
  int signal = 0;  // SIGINT, SIGTERM or SIGHUP when it asked this process to end, and so ended the compiler; else 0
};

/// Runs a build.sh with MESHRT set to `runtime` (unless empty) and its messages in the file `log`. All that the script
/// has started is gone when this returns. Throws meshrt::Failure (Cause::environment) where no process can be started.
CompilerEnd run_compiler(const std::filesystem::path& script, const std::filesystem::path& log,
                         const std::string& runtime);

}  // namespace mesh
