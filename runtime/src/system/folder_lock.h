// folder_lock.h: a folder that only one run at a time writes into. The lock is the kernel's (flock) and goes with the
// process, however that ends. Where the file system has no locks, nobody is kept out.
#pragma once
#include <string>

#include "system/descriptor.h"

namespace meshrt {

class FolderLock {
 public:
  FolderLock() = default;
  /// Locks `folder`, which is there, while this lives. Throws Failure (Cause::environment) when another run holds it
  /// and does not end within a second: that `folder_told` is in use, by which process of which host, and `way_out`.
  FolderLock(const std::string& folder, const std::string& folder_told, const std::string& way_out);

  /// Why nobody is kept out, in words; empty: the folder is locked.
  const std::string& problem() const { return problem_; }

 private:
  Descriptor file_;
  std::string problem_;
};

/// The file in the folder that is locked, with the name of the process that holds it or held it last. It stays: a run
/// that took it away could take another run's.
inline constexpr const char* lock_name = ".lock";

}  // namespace meshrt
