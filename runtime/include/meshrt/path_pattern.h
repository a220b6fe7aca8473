// path_pattern.h: patterns of paths ("layer.attn.wq"), as specs, run files and commands write them.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace meshrt {

/// Whether the parts of a pattern match a path of parts with dots between: `*` is any one part, `**` any number of
/// them; a name stands for all calls of its block, `lap` for `lap#2` too.
bool path_matches(std::span<const std::string> pattern, std::string_view path);
/// The same for a pattern with dots between its parts.
bool path_matches(std::string_view pattern, std::string_view path);

}  // namespace meshrt
