// pattern.h: what a regular expression finds in a line. The C library's expressions: std::regex takes seconds to
// compile in every file that uses it.
#pragma once
#include <regex.h>

#include <string>
#include <vector>

namespace mesh {

/// An extended regular expression of POSIX, with GNU's \b and \s. Groups are numbered from 1; 0 is all that was found.
class Pattern {
 public:
  explicit Pattern(const std::string& expression);
  ~Pattern();
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  /// What was found first: text before, each group (empty where it had no part), text behind. Nothing: no match.
  struct Match {
    std::vector<std::string> groups;
    std::string before, behind;
    size_t first_group = 0;  // where group 1 begins in group 0
    explicit operator bool() const { return !groups.empty(); }
  };
  Match find(const std::string& text) const;

 private:
  regex_t compiled_;
};

}  // namespace mesh
