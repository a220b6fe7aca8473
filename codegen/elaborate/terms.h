// terms.h: element types and dims of terms: reading types as written, bringing operands together, casting where a type
// is written. Language, Dims 2, 4 and 6.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "codegen/elaborate/context.h"

namespace mesh::elaboration {

/// A type as the spec writes it, its dims resolved. `rest`: it has `...`, whose dims stand at `rest_at`.
struct WrittenType {
  Type element = Type::f32;
  DimId index_of;
  std::vector<DimId> dims;
  bool rest = false;
  size_t rest_at = 0;
  Span span;
  ValueType with_rest(const std::vector<DimId>& rest_dims) const;
};

/// Nothing when an error was reported. E0201, E0203, E0312.
std::optional<WrittenType> written_type(Elaboration&, const DimScope&, const ast::Type&);

/// The element type called `name` ("real", "i32", ...), if there is one. `real` and `f32` are f64 in a program of f64.
std::optional<Type> element_named(const Elaboration&, const std::string& name);

bool is_float(Type);
bool is_integer(Type);
/// Whether a literal of the type holds the number exactly enough: integers must be whole, floats within its range, no
/// number is a bool.
bool holds(Type, double number);

/// What a float is computed in where sums run and where nothing else decides: f32, or f64 in a program of f64.
Type default_float(const Elaboration&);

/// The term as a tensor; numbers and truths become literals of `element` (numbers: default_float). Unset for poison,
/// and (E0308) for a masked value.
ValueId tensor_of(Elaboration&, const Term&, Span, std::optional<Type> element = {});

/// A number written as `element`; E0309 when that cannot hold it (0.5 as i32), E0118 a float's range. Unset then.
ValueId literal_as(Elaboration&, double number, const ValueType& like, Span);

/// The same of a number or a choice of numbers.
ValueId untyped_as(Elaboration&, const Term&, const ValueType& like, Span);

/// The term with `change` made to each of its numbers, where it consists of numbers; `value` is what it is as a tensor.
Term with_numbers(const Term&, ValueId value, const std::function<double(double)>& change);

/// Two operands, brought to one element type.
struct Pair {
  ValueId left, right;
};
/// E0309 for a mixture that must be cast, E0308 for masked values. Numbers take the other's type.
std::optional<Pair> meet(Elaboration&, const Term& left, const Term& right, Span left_span, Span right_span, Span at,
                         const std::string& what);

/// E0303 unless one of the operands has all dims of the others.
bool one_sided(Elaboration&, const std::vector<ValueId>& operands, const std::vector<Span>& spans, Span at,
               const std::string& what);

/// The term as a value of exactly this type, its dims in this order: floats are cast, numbers written, fewer dims
/// widened if `widen`, else E0302. `what` is how the message names the place: "`h` is declared".
Term as_written(Elaboration&, const Term&, const ValueType& wanted, Span value_span, Span type_span,
                const std::string& what, bool widen, const char* code = "E0302");

/// The same elements under another element type.
Term cast_to(Elaboration&, const Term&, Type element, DimId index_of, Span);

}  // namespace mesh::elaboration
