// product_table.h: which implementation runs which products, as `meshc doctor --tune FILE` has measured it on a
// machine. A program keeps to it where MESHRT_GEMM names the file; nothing measured is picked up silently.
#pragma once
#include <array>
#include <optional>
#include <string>

#include "product_choice.h"

namespace meshrt {

/// Element types of products that have rows in the table; of bf16 those of two operands of it.
enum class ProductType : uint8_t { f32, f64, bf16 };
const char* name_of(ProductType);
const char* name_of(ProductClass);

struct ProductTable {
  static constexpr size_t types = 3, classes = 4;
  std::array<std::array<Implementation, classes>, types> rows = {};  // by ProductType and ProductClass
  bool pairs_bf16 = false;  // our kernels multiply bf16 in pairs (vdpbf16ps), where the processor can
  std::string hash;         // of the rows, for ranks to compare

  Implementation at(ProductType type, ProductClass shape) const {
    return rows[static_cast<size_t>(type)][static_cast<size_t>(shape)];
  }
  bool has(Implementation wanted) const;
};

/// A row of each type and class, `f32 thin own`, and `bf16 in_pairs yes`, in any order; what stands behind the third
/// word, and after `#`, is for people. Throws Failure (Cause::environment) with the file's name and line for another
/// text, and where a row is missing.
ProductTable parse_product_table(const std::string& text, const std::string& file);

/// The table in the file that MESHRT_GEMM names, which has a `/` in it; nothing where it names none.
const std::optional<ProductTable>& given_product_table();

}  // namespace meshrt
