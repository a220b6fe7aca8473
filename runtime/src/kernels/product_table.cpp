#include "product_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <vector>

#include "meshrt/failure.h"
#include "meshrt/random.h"
#include "system/text_file.h"

namespace meshrt {
namespace {

constexpr std::array all_types = {ProductType::f32, ProductType::f64, ProductType::bf16};
constexpr std::array all_classes = {ProductClass::with_epilogue, ProductClass::thin, ProductClass::small,
                                    ProductClass::matrix};

/// The one of that name; nothing: there is none.
template <class All>
std::optional<typename All::value_type> named(const All& all, const std::string& name) {
  for (const auto one : all)
    if (name == name_of(one)) return one;
  return std::nullopt;
}

/// What can multiply numbers of that type.
bool fits(ProductType type, Implementation by) {
  return by == Implementation::own || (by == Implementation::onednn) == (type == ProductType::bf16);
}

class Parser {
 public:
  explicit Parser(std::string file) : file_(std::move(file)) {}

  ProductTable parse(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      ++number_;
      take(line.substr(0, line.find('#')));
    }
    for (const ProductType type : all_types)
      for (const ProductClass shape : all_classes)
        if (!seen_[static_cast<size_t>(type)][static_cast<size_t>(shape)])
          fail(fmt::format("has no line for `{} {}`", name_of(type), name_of(shape)));
    if (!knows_pairs_) fail("has no line for `bf16 in_pairs`");
    table_.hash = fmt::format("{:08x}", static_cast<uint32_t>(hash_of(rows_text())));
    return table_;
  }

 private:
  void take(const std::string& line) {
    std::istringstream words(line);
    std::string type_name, class_name, chosen;
    if (!(words >> type_name)) return;
    words >> class_name >> chosen;
    if (type_name == "bf16" && class_name == "in_pairs") {
      if ((chosen != "yes" && chosen != "no") || knows_pairs_) refuse(line);
      table_.pairs_bf16 = chosen == "yes";
      knows_pairs_ = true;
      return;
    }
    const auto type = named(all_types, type_name);
    const auto shape = named(all_classes, class_name);
    const auto by = named(all_implementations, chosen);
    if (!type || !shape || !by || !fits(*type, *by)) refuse(line);
    const auto row = static_cast<size_t>(*type), column = static_cast<size_t>(*shape);
    if (seen_[row][column]) refuse(line);
    table_.rows[row][column] = *by;
    seen_[row][column] = true;
  }

  std::string rows_text() const {
    std::string text = table_.pairs_bf16 ? "pairs" : "";
    for (const auto& row : table_.rows)
      for (const Implementation by : row) text += std::string(" ") + name_of(by);
    return text;
  }

  [[noreturn]] void refuse(const std::string& line) const {
    throw Failure(
        Cause::data,
        fmt::format("{}:{}: `{}` is no line of a table of products, as `f32 thin own` is, or the second of its kind; "
                    "`meshc doctor --tune {}` writes it anew",
                    file_, number_, line, file_));
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Failure(Cause::data, fmt::format("{} {}; `meshc doctor --tune {}` writes it anew", file_, what, file_));
  }

  std::string file_;
  int number_ = 0;
  ProductTable table_;
  bool knows_pairs_ = false;
  std::array<std::array<bool, ProductTable::classes>, ProductTable::types> seen_ = {};
};

std::optional<ProductTable> read_given() {
  const char* given = std::getenv("MESHRT_GEMM");
  const std::string file = given ? given : "";
  if (file.find('/') == std::string::npos) return std::nullopt;
  const std::string text = read_text(file);
  if (text.empty())
    throw Failure(Cause::usage,
                  fmt::format("MESHRT_GEMM names {}, which is not there or empty; `meshc doctor --tune {}` writes it",
                              file, file));
  return parse_product_table(text, file);
}

}  // namespace

const char* name_of(ProductType type) {
  constexpr std::array names = {"f32", "f64", "bf16"};
  return names[static_cast<size_t>(type)];
}
const char* name_of(ProductClass shape) {
  constexpr std::array names = {"with_epilogue", "thin", "small", "matrix"};
  return names[static_cast<size_t>(shape)];
}
bool ProductTable::has(Implementation wanted) const {
  return std::ranges::any_of(rows, [&](const auto& row) { return std::ranges::count(row, wanted) > 0; });
}

ProductTable parse_product_table(const std::string& text, const std::string& file) { return Parser(file).parse(text); }

const std::optional<ProductTable>& given_product_table() {
  static const auto& table =
      *new std::optional<ProductTable>(read_given());  // threads that compute may outlive statics
  return table;
}

}  // namespace meshrt
