// gzip.h: what a gzip file holds.
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <string>

namespace meshrt {

bool is_gzip(std::span<const std::byte> bytes);

/// take(bytes) for one piece after the other of what all members of a gzip file hold, until it says false. `path` is
/// for messages. Throws Failure (Cause::data) for a damaged file; false: `take` said so.
bool unpack_gzip(const std::string& path, std::span<const std::byte> packed,
                 const std::function<bool(std::span<const std::byte>)>& take);

}  // namespace meshrt
