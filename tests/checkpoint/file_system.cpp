#include "file_system.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

using meshrt::FileSystem;

// In place of the functions of the C library.
extern "C" int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) noexcept {
  if (FileSystem::instead_of_exchange) {
    FileSystem::instead_of_exchange();
    errno = EINVAL;
    return -1;
  }
  return static_cast<int>(syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}

extern "C" int flock(int file, int operation) noexcept {
  struct stat status {};
  FileSystem::lock_reaches_server =
      fstat(file, &status) == 0 && S_ISREG(status.st_mode) && (fcntl(file, F_GETFL) & O_ACCMODE) == O_RDWR;
  if (FileSystem::lock_error != 0) {
    errno = FileSystem::lock_error;
    return -1;
  }
  return static_cast<int>(syscall(SYS_flock, file, operation));
}
