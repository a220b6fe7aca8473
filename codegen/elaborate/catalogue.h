// catalogue.h: what every op of the language does, told for people: `meshc ops` prints it and grammar/README.md holds
// it. The texts are catalogue/*.md: a family a file, `## name` and lines `key: text` an op. NumPy lines and gradients
// are run against the compiler (`tests/full reference`), and every row of functions.cpp must have its text.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mesh {

struct CatalogueEntry {
  std::string name;      // "softmax", "+", "rename"
  std::string call;      // "softmax[b](x)", in the dims of `catalogue_dims`
  std::string operands;  // "x : real[a, b], k : bool[a, b]"
  std::string before;    // statements that it follows; mostly empty
  std::string needs;     // what must hold of the operands, "x > 0"; mostly empty
  std::string result;    // "real[a, b]"
  std::string dims;      // the rule behind the result's dims
  std::string settings;  // of its named arguments; mostly empty
  std::string numpy;     // the same on arrays: statements and a last expression, `;` between them; empty: random
  std::vector<std::pair<std::string, std::string>>
      gradients;  // of an operand, from `d`, the gradient of the result `y`
  std::string meaning;
};

struct CatalogueFamily {
  std::string title, intro;
  std::vector<CatalogueEntry> entries;
};

/// The dims that all entries use, as they are declared.
inline constexpr std::string_view catalogue_dims =
    "dim a = 3, b = 4, c = 5, k = b, ab = a * b, n = a + b, two = 2, ring = 4 edge \"wrap\"";

const std::vector<CatalogueFamily>& catalogue();

/// The files as they are; written by codegen/embed.sh.
const std::vector<std::string_view>& catalogue_files();

}  // namespace mesh
