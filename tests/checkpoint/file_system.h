// file_system.h: what file systems of hosts lack, for tests: calls of this program fail as they do there.
#pragma once
#include <functional>

namespace meshrt {

struct FileSystem {
  /// Called where two names are to change places, which is refused then, as by NFS; empty: they do.
  static inline std::function<void()> instead_of_exchange;
  /// What locking fails with; 0: it does what it can.
  static inline int lock_error = 0;
  /// Whether what was locked last was a regular file, open for reading and writing: the only kind that NFS passes on.
  static inline bool lock_reaches_server = false;

  /// All is there again.
  static void mend() { instead_of_exchange = nullptr, lock_error = 0; }
};

}  // namespace meshrt
