#include "product_libraries.h"

#include <memory>
#include <optional>
#include <string>
#include <type_traits>

#include "instruction_set.h"
#include "meshrt/failure.h"
#include "product_choice.h"
#include "product_onednn.h"
#include "product_table.h"

namespace meshrt {
namespace {

/// Whether MESHRT_GEMM asks for an implementation, by its name or in a table.
bool asks_for(Implementation by) {
  const auto& given = given_product_table();
  return wanted_implementation() == by || (given && given->has(by));
}

[[noreturn]] void fail(const std::string& library, const std::string& why, const std::string& remedy) {
  throw Failure(Cause::environment,
                "MESHRT_GEMM asks for " + library + ", but " + why + "; " + remedy + "leave MESHRT_GEMM out");
}

// ---- OpenBLAS, of f32 and f64

/// What MESHRT_GEMM asks for: `onednn` is a word of bf16 alone.
std::optional<Implementation> wanted_of_wide() {
  const auto wanted = wanted_implementation();
  return wanted == Implementation::onednn ? std::nullopt : wanted;
}

struct FoundBlas {
  std::unique_ptr<const Blas> library;
  std::string why_not;  ///< when there is none
};

FoundBlas find_blas() {
  try {
    FoundBlas found;
    found.library = std::make_unique<const Blas>();
    return found;
  } catch (const Failure& failure) {
    if (!asks_for(Implementation::openblas)) return {nullptr, failure.what()};
    fail("OpenBLAS", failure.what(), "install libopenblas0 or ");
  }
}

const FoundBlas& blas() {
  static const FoundBlas& found = *new FoundBlas(find_blas());  // threads that compute may outlive statics
  return found;
}

/// What a table says, that of the file that MESHRT_GEMM names or our own.
template <class T>
Implementation by_table(ProductClass shape) {
  static const std::optional<ProductTable>& given = given_product_table();
  constexpr auto type = std::is_same_v<T, float> ? ProductType::f32 : ProductType::f64;
  return given ? given->at(type, shape) : fastest<T>(instruction_set(), shape);
}

/// Whether the table or MESHRT_GEMM may give any product to OpenBLAS here.
bool may_use_blas() {
  const auto wanted = wanted_of_wide();
  if (wanted) return *wanted == Implementation::openblas;
  for (const ProductClass shape :
       {ProductClass::with_epilogue, ProductClass::thin, ProductClass::small, ProductClass::matrix})
    if (by_table<float>(shape) == Implementation::openblas || by_table<double>(shape) == Implementation::openblas)
      return true;
  return false;
}

template <class T>
const Blas* blas_for(const Product<T>& p) {
  static const bool possible = may_use_blas();
  if (!possible || !p.rows || !p.cols || !p.inner) return nullptr;
  static const std::optional<Implementation> wanted = wanted_of_wide();
  if (wanted.value_or(by_table<T>(class_of(p))) != Implementation::openblas) return nullptr;
  return blas().library.get();
}

// ---- oneDNN, of two operands of bf16

struct FoundOneDnn {
  const OneDnn* library = nullptr;
  std::string why_not;  ///< where the processor has AMX, and oneDNN would use it
};

/// oneDNN is used for the processor's AMX alone, unless it is asked for.
FoundOneDnn find_onednn() {
  const bool asks = asks_for(Implementation::onednn);
  if (!asks && (wanted_implementation() || given_product_table() || !processor_has_amx())) return {};
  const OneDnn* library = nullptr;
  try {
    library = &onednn();
  } catch (const Failure& failure) {
    if (!asks) return {nullptr, std::string(failure.what()) + "; install libdnnl2"};
    fail("oneDNN", failure.what(), "install libdnnl2 or ");
  }
  if (asks && !multiplies_bf16(*library)) fail("oneDNN", library->name + " multiplies no bf16", "");
  if (asks || library->has_amx) return {library, ""};
  return {nullptr, library->name + " does not use it here; does the system permit it?"};
}

const FoundOneDnn& onednn_for_products() {
  static const FoundOneDnn& found = *new FoundOneDnn(find_onednn());
  return found;
}

}  // namespace

const Blas* library_for(const Product<float>& product) { return blas_for(product); }
const Blas* library_for(const Product<double>& product) { return blas_for(product); }

const OneDnn* library_for(const Product<float, Bfloat16>& p) {
  static const OneDnn* const library = onednn_for_products().library;
  static const bool takes_all = wanted_implementation().has_value();
  static const std::optional<ProductTable>& given = given_product_table();
  if (!library || !p.inner) return nullptr;
  if (given) return given->at(ProductType::bf16, class_of(p)) == Implementation::onednn ? library : nullptr;
  // Of few rows there may be a size for each position of a text, each of which would be compiled.
  const ProductClass shape = class_of(p.rows, p.cols, p.inner);
  const bool theirs = shape == ProductClass::matrix || (takes_all && shape != ProductClass::thin);
  return theirs ? library : nullptr;
}

namespace {

std::string name_of_wide() {
  const std::string own = own_name();
  if (!may_use_blas() || !blas().library) return own;
  const std::string library = "openblas " + blas().library->core();
  if (given_product_table()) return own + " and " + library;
  const bool all = wanted_of_wide() || instruction_set() == InstructionSet::portable;
  return all ? library : own + ", matrices of f64 without an epilogue " + library;
}

}  // namespace

std::string multiply_name(Narrow narrow) {
  std::string name = name_of_wide() + text_of(narrow, "by vdpbf16ps");
  const auto& given = given_product_table();
  if (const OneDnn* const library = narrow.bf16 ? onednn_for_products().library : nullptr)
    name += (given                     ? ", some of bf16 "
             : wanted_implementation() ? ", products of bf16 "
                                       : ", matrices of bf16 ") +
            library->name;
  if (given) name += ", by table " + given->hash;
  return name;
}

std::string multiply_warning(Narrow narrow) {
  if (narrow.bf16 && !onednn_for_products().why_not.empty())
    return "products of bf16 could be several times faster by this processor's AMX, which we leave to oneDNN, and " +
           onednn_for_products().why_not;
  if (instruction_set() != InstructionSet::portable || !may_use_blas() || blas().library) return "";
  return "products run a hundred times slower than they could: this processor has no fused multiply-add that our "
         "kernels could use, and " +
         blas().why_not + "; install libopenblas0";
}

}  // namespace meshrt
