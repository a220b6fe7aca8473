// munge.h: MUNGE, by whose daemons the hosts of a cluster know each other's users. A credential is a text that only
// processes of the same user can open, on hosts whose daemons have the same key, and only once.
#pragma once
#include <optional>
#include <string>

namespace meshrt {

/// Whether its library and its daemon are there. MESHRT_MUNGE_SOCKET names the daemon's socket, where it is another one
/// than usual.
bool munge_is_there();

/// For processes of this user. Throws Failure (Cause::environment).
std::string munge_encode(const std::string& text);

/// Nothing where the credential is of another user, of another cluster, too old, or was opened before. Throws Failure
/// (Cause::environment) when there is no daemon.
std::optional<std::string> munge_decode(const std::string& credential);

}  // namespace meshrt
