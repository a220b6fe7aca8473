// tell.h: what is printed. A stream that cannot be written, say because its disk is full or its terminal gone, ends no
// run: fmt::print would throw, here the text is lost.
#pragma once
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

#include "meshrt/color.h"

namespace meshrt {

template <class... Values>
void tell_on(std::FILE* stream, fmt::format_string<Values...> format, Values&&... values) {
  const std::string text = fmt::format(format, std::forward<Values>(values)...);
  std::fwrite(text.data(), 1, text.size(), stream);
}

/// On stderr. Where people look at it the word `error` or `warning` at the beginning has a colour.
void tell_text(const std::string& text);
template <class... Values>
void tell(fmt::format_string<Values...> format, Values&&... values) {
  tell_text(fmt::format(format, std::forward<Values>(values)...));
}
/// Whether it has: what `--color` says. Before that it is `automatic`.
void choose_color(Color);

/// Of a stream whose text is what a command was asked for. Throws Failure (Cause::environment) where some of it could
/// not be written; not where nobody reads on, as `head` does not.
void require_written(std::FILE* stream);

}  // namespace meshrt
