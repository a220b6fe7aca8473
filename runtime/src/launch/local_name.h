// local_name.h: sockets of this host that have a name and no file: a name goes with its socket, and only processes in
// the same network namespace see it. The kernel tells whose process is at the other end.
#pragma once
#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "system/descriptor.h"

namespace meshrt {

struct LocalName {
  /// Of a name of any length: long ones are hashed.
  explicit LocalName(const std::string& name);

  sockaddr_un address{};
  socklen_t length = 0;
};

/// A socket (SOCK_STREAM, SOCK_SEQPACKET) that listens under a name; none (-1) when another process has the name.
/// Throws Failure (Cause::environment).
Descriptor listen_under(const std::string& name, int type);
/// One try; -1 and errno when nobody listens. Throws Failure (Cause::environment) where another user does.
Descriptor call_once(const std::string& name, int type);

/// The process at the other end.
ucred peer_of(int socket);
bool is_of_this_user(int socket);

}  // namespace meshrt
