#include "codegen/elaborate/catalogue.h"

#include <array>

#include "codegen/graph/op.h"

namespace mesh {
namespace {

using Field = std::string CatalogueEntry::*;

constexpr std::array<std::pair<std::string_view, Field>, 8> fields = {{
    {"call: ", &CatalogueEntry::call},
    {"of: ", &CatalogueEntry::operands},
    {"before: ", &CatalogueEntry::before},
    {"needs: ", &CatalogueEntry::needs},
    {"gives: ", &CatalogueEntry::result},
    {"dims: ", &CatalogueEntry::dims},
    {"settings: ", &CatalogueEntry::settings},
    {"numpy: ", &CatalogueEntry::numpy},
}};

constexpr std::string_view gradient_key = "gradient ";

/// Takes a line `key: text`; false where it is none.
bool take_field(CatalogueEntry& entry, std::string_view line) {
  for (const auto& [key, field] : fields) {
    if (!line.starts_with(key)) continue;
    entry.*field = line.substr(key.size());
    return true;
  }
  const size_t colon = line.find(": ");
  if (!line.starts_with(gradient_key) || colon == std::string_view::npos) return false;
  entry.gradients.emplace_back(line.substr(gradient_key.size(), colon - gradient_key.size()), line.substr(colon + 2));
  return true;
}

/// Lines of a paragraph become one.
void append_line(std::string& text, std::string_view line) {
  if (line.empty()) return;
  if (!text.empty()) text += ' ';
  text += line;
}

CatalogueFamily read_family(std::string_view file) {
  CatalogueFamily family;
  for (size_t at = 0; at < file.size();) {
    const size_t end = std::min(file.find('\n', at), file.size());
    const std::string_view line = file.substr(at, end - at);
    at = end + 1;
    if (line.starts_with("# ")) {
      family.title = line.substr(2);
    } else if (line.starts_with("## ")) {
      family.entries.push_back({});
      family.entries.back().name = line.substr(3);
    } else if (family.entries.empty()) {
      append_line(family.intro, line);
    } else if (CatalogueEntry& entry = family.entries.back(); !take_field(entry, line)) {
      append_line(entry.meaning, line);
    }
  }
  for (const CatalogueEntry& entry : family.entries)
    if (entry.call.empty() || entry.result.empty() || entry.dims.empty() || entry.meaning.empty())
      internal_error("the catalogue's text of `" + entry.name + "` lacks a line");
  return family;
}

}  // namespace

const std::vector<CatalogueFamily>& catalogue() {
  static const std::vector<CatalogueFamily> families = [] {
    std::vector<CatalogueFamily> all;
    for (const std::string_view file : catalogue_files()) all.push_back(read_family(file));
    return all;
  }();
  return families;
}

}  // namespace mesh
