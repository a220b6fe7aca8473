// output_path.h: where a file is written that takes another one's place once all of it is there.
#pragma once
#include <string>

namespace meshrt {

/// `path`, or what a link there leads to, so that the link stays. Throws Failure (Cause::environment) where something
/// stands that is no file (a folder, a device, a pipe): a file in its place would do harm.
std::string output_path(const std::string& path);

}  // namespace meshrt
