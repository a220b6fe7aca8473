#include "codegen/emit/pattern.h"

#include "codegen/graph/builder.h"

namespace mesh {

Pattern::Pattern(const std::string& expression) {
  if (regcomp(&compiled_, expression.c_str(), REG_EXTENDED) != 0)
    internal_error("not a regular expression: " + expression);
}

Pattern::~Pattern() { regfree(&compiled_); }

Pattern::Match Pattern::find(const std::string& text) const {
  std::vector<regmatch_t> places(compiled_.re_nsub + 1);
  if (regexec(&compiled_, text.c_str(), places.size(), places.data(), 0) != 0) return {};
  Match match;
  for (const regmatch_t& place : places) {
    const bool is_there = place.rm_so >= 0;
    match.groups.push_back(
        is_there ? text.substr(static_cast<size_t>(place.rm_so), static_cast<size_t>(place.rm_eo - place.rm_so))
                 : std::string());
  }
  match.before = text.substr(0, static_cast<size_t>(places[0].rm_so));
  match.behind = text.substr(static_cast<size_t>(places[0].rm_eo));
  if (places.size() > 1) match.first_group = static_cast<size_t>(places[1].rm_so - places[0].rm_so);
  return match;
}

}  // namespace mesh
