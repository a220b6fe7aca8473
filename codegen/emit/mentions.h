// mentions.h: whether emitted text uses a name, so that parameters which nothing uses can be left without one.
#pragma once
#include <cctype>
#include <string_view>

namespace mesh {

/// Whether `name` stands in the text as a word of its own.
inline bool mentions(std::string_view text, std::string_view name) {
  const auto is_part = [&](size_t at) {
    return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 || text[at] == '_');
  };
  for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1))
    if ((at == 0 || !is_part(at - 1)) && !is_part(at + name.size())) return true;
  return false;
}

}  // namespace mesh
