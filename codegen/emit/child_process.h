// child_process.h: another program as a child that ends when this process is asked to end.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace mesh {

struct ChildEnd {
  int status = 0;  // as wait() gives it
  int signal = 0;  // SIGINT, SIGTERM or SIGHUP when it asked this process to end, and so ended the child; else 0
};

/// Runs a command (a path, then its arguments) with the variables `environment` set besides, and what it says in the
/// file `log`. All that it has started is gone when this returns. Throws meshrt::Failure (Cause::environment) where no
/// process can be started.
ChildEnd run_child(const std::vector<std::string>& command, const std::filesystem::path& log,
                   const std::map<std::string, std::string>& environment = {});

}  // namespace mesh
