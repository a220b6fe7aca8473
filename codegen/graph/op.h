// op.h: what every op must say about itself, gathered in one definition per op (graph/ops/*.cpp): the name, result
// types, how dims of operands and results correspond (from which the layout engine derives everything), the gradient,
// and the work. With named dims most ops share the default correspondence: a dim of the same name is the same factor.
#pragma once
#include <concepts>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/graph/band.h"
#include "codegen/graph/builder.h"
#include "codegen/graph/graph.h"
#include "codegen/graph/window.h"

namespace mesh {

/// Where the elements of a dim stand along a factor that is longer: element i at begin + every * i.
struct Stretch {
  int64_t begin = 0, every = 1;
};

/// One direction of an op's iteration space: the dim that stands for it in each operand and result (unset where it is
/// absent). Splitting a factor over mesh axes splits all of these alike; a factor absent from a result leaves a partial
/// value there.
struct Factor {
  std::vector<DimId> operands, results;
  int64_t size;
  bool splittable = true;       // false: the op needs it whole
  Reduce reduce = Reduce::sum;  // how parts combine in results that lack it
  // Of split and merge of dims, where several factors are the parts of one dim, slowest first:
  int64_t granule = 1;    // steps of the merged dim in one of its own; above 1 every rank must get whole steps
  int slower = -1;        // the factor before it, which must have a rank for each of its steps before this one is split
  bool weigh = false;     // a split that is there already may cost more than none
  Margin margin = {};     // what a part of a result needs of operands beside the same part
  bool in_order = false;  // parts must be blocks: what is computed depends on which elements are neighbours
  std::optional<WindowReach> window = {};  // windows move along it: parts need more of some operands; in_order too
  /// Where a dim of an operand or a result stands for another dim than the first operand's: the op meets all of it, and
  /// its parts go round (DimPlacement::circulates). Another factor has the first operand's dim alone.
  bool circulates = false;
  /// The op works on pairs of elements along the first operand's dim and another, on these alone: along which a part
  /// may have more to do than others.
  std::optional<Band> band = {};
  /// Of dims that are stretches of the factor, by operand and result: what a rank has of them is what stands in its
  /// part of the factor. Empty: all dims are as long as it.
  std::vector<Stretch> operands_at = {}, results_at = {};
  bool other_way = false;  // to split dims that other factors have: one or the other
  bool is_stretched() const { return !operands_at.empty() || !results_at.empty(); }
};

/// How a pending reduction over ranks (a partial sum) in operands may pass through an op instead of being completed
/// before it.
enum class PartialRule : uint8_t {
  completes,  // never
  first,      // linear in the first operand: that one may be partial
  each,       // linear in each operand alone: one partial operand, the others complete (multiply, dot, ...)
  together    // linear in all operands together: all partial over the same axes (add, subtract), or one operand only
};

/// What an op must say of itself: a definition that leaves one of these out does not compile.
template <class T>
class Said {
 public:
  template <class What>
  requires std::convertible_to<What, T>
  // NOLINTNEXTLINE(bugprone-forwarding-reference-overload): the constraint leaves copies to the others
  constexpr Said(What&& what) : what_(std::forward<What>(what)) {}
  constexpr operator const T&() const { return what_; }

 private:
  T what_;
};

/// What it costs to compute an op once more.
enum class Effort : uint8_t {
  view,      // nothing: other names for the same elements
  cheap,     // less than a turn of writing and reading its result
  dear,      // more than that
  lookup,    // rows of memory by index
  product,   // many operations an element
  attention  // two products, and what softmax makes of the first
};

inline bool has_products(Effort effort) { return effort >= Effort::product; }

/// What it does with operands of a type in which numbers are only kept and moved, as bf16 and f16.
enum class Narrow : uint8_t {
  widened,    // it is given f32, and what it makes of them is rounded: elaborate/narrow_types.h
  handed_on,  // its result has these numbers, or some of them
  filled,     // and besides one of its own, which is rounded as well
  rounded,    // it computes in f32, and rounds what comes of that
  multiplied  // it adds up products of them in f32, in which its results are
};

/// Where a value that lowering meets is no memory but a formula, computed by each of its readers. All false: never.
struct Formula {
  bool always = false;
  bool of_formulas = false;  // where its operands are formulas too
  bool in_parts = false;     // where its readers need parts of it alone
  bool alone = false;        // where it has one reader
};

/// A reduction over dims of operands that the result lacks.
struct Reduction {
  Reduce reduce;
  std::vector<DimId> dims;
};

/// What is known while the orders are chosen in which values lie in memory: by value, those that were chosen, and those
/// that readers would like.
struct MemoryOrders {
  const Graph& graph;
  std::vector<std::vector<DimId>> chosen;
  std::vector<std::optional<std::vector<DimId>>> wished;

  const std::vector<DimId>& of(ValueId value) const { return chosen[value.index]; }
};

/// How an op's operands and results lie in memory.
struct MemoryOrder {
  enum class Kind : uint8_t {
    anchored,    // memory dictates the order of its results
    spread,      // no memory of its own: lies as its readers like
    elementwise  // its operands and its result lie alike
  } kind;
  /// The dims of a result as they shall lie, of operands whose order is chosen. Null: the logical order, or that of an
  /// elementwise op's operands.
  std::vector<DimId> (*choose)(const MemoryOrders&, const Node&, size_t result);
  /// How it would like its operands to lie. Null: it takes them as they are.
  void (*wish)(const Graph&, const Node&, const std::function<void(ValueId, std::vector<DimId>)>& wish_for);
};

/// The number that a value is in all its elements, if that is known.
using NumberOf = std::function<std::optional<double>(ValueId)>;

struct Horizon;

/// Everything that passes ask of an op. They ask this and not which op it is.
struct OpDefinition {
  Said<std::string_view> name;
  /// What a nameless result of it may be called: "gelu", "product", "sum". Null: its name.
  Said<std::string (*)(const Op&, size_t result)> called;

  // ---- its types, layouts and gradient
  Said<std::vector<ValueType> (*)(const Graph&, const Node&)> infer;
  Said<std::vector<Factor> (*)(const Graph&, const Node&)> factors;
  Said<PartialRule (*)(const Graph&, const Node&)> partial;
  /// Given the results' gradients (unset where nothing flows), returns the operands' (unset where none is needed:
  /// `wanted[i]` false, or not differentiable). Null: no gradient flows.
  Said<std::vector<ValueId> (*)(GraphBuilder&, NodeId, std::span<const ValueId> d_results,
                                const std::vector<bool>& wanted)>
      gradient;
  /// The same in simpler ops, after differentiation. Null: it is simple.
  Said<std::vector<ValueId> (*)(GraphBuilder&, const Node&)> expand;

  // ---- its meaning
  /// What is reduced over which dims, where that is all it does with them. Null: nothing.
  Said<Reduction (*)(const Graph&, const Node&)> reduction;
  /// The number that each element of its result is, from those of its operands. Null: never known.
  Said<std::optional<double> (*)(const Graph&, const Node&, const NumberOf&)> number;
  /// Of operands whose dims are renamed it gives its result with dims renamed alike.
  Said<bool> names_dims_alike;
  /// It does more along a dim that it names than to have it or to add up over it.
  Said<bool> works_along_dims;

  /// Of which positions of a sequence its results are made, from those of its operands (horizon.h).
  Said<std::vector<Horizon> (*)(const Graph&, const Node&, std::span<const Horizon> operands)> causality;

  // ---- its cost
  /// Multiplications and additions of one execution on the whole tensors.
  Said<double (*)(const Graph&, const Node&)> flops;
  Said<Effort (*)(const Op&)> effort;
  Said<Narrow> narrow;

  // ---- its lowering
  /// Whether it reads its operands element by element, so that these may be formulas; else they must be in memory.
  Said<bool (*)(const Graph&, const Node&)> reads_elements;
  Said<Formula (*)(const Op&)> formula;
  Said<MemoryOrder> memory_order;
};

class Lowering;

/// All that there is to know of an op that passes do not know by a type of its own: see DefinedOp.
struct OpKind {
  OpDefinition definition;
  /// As dumps and errors print it.
  Said<std::string (*)(const Graph&, const DefinedOp&)> text;
  /// Into steps (program/lowering.h).
  Said<void (*)(Lowering&, const Node&)> lower;
  /// The same by neighbours along the dims that `is_sequence` says. Empty: it works otherwise along them, or along
  /// none. Null: always.
  Said<std::vector<ValueId> (*)(GraphBuilder&, const Node&, const std::function<bool(DimId)>& is_sequence)>
      by_neighbours;
};

const OpDefinition& definition(const Op&);
/// What a nameless result of the op may be called.
std::string simple_name(const Op&, size_t result = 0);
/// Other names for the same elements.
bool is_view(const Op&);
/// The same elements in the same order, with another name for a dim.
bool is_rename(const Op&);
/// A view that splits a dim into parts, or merges them.
struct Regrouping {
  DimId merged;
  std::vector<DimId> parts;  // first slowest
  bool splits;
};
std::optional<Regrouping> regrouping(const Op&);
/// Each element is computed of those of the operands at the same place.
bool is_elementwise(const Op&);
/// It has no memory of its own, and lies as its readers like: its operand's elements repeated, or one number.
bool is_spread(const Op&);
/// The same numbers in what arithmetic on them is done in.
bool widens(const Graph&, const Node&);
/// By whose rate its work counts: that of what it reads first, or gives where it reads nothing; of a product of unlike
/// types that of the wider one, to which the other is widened.
Type type_of_work(const Graph&, const Node&);
/// What it computes of the operands' elements at each place; nothing for other ops.
std::optional<MapFunction> map_function(const Op&);
/// As which reduction two operands become one, element by element: x + y is a sum. Nothing for other ops.
std::optional<Reduce> combining(const Op&);
/// x + y, element by element.
bool is_addition(const Op&);
/// Of a product of two operands that, over one more dim which both have: what it gives is the sum of what the op gives
/// at each index of that dim. Nothing for other ops.
std::optional<Op> multiplied_over(const Op&, DimId also);
/// It reads nothing and computes nothing: a number, positions, the step and its rate, what is stored; repeated or not.
bool is_given(const Graph&, const Node&);
/// The dim whose positions the elements are, if they are just that.
std::optional<DimId> positions_along(const Graph&, const Node&);
/// The dims whose sizes' product a literal is, if it counts elements; through broadcasts.
std::vector<DimId> counted_dims(const Graph&, ValueId);
/// The number of a literal, through broadcasts.
std::optional<double> literal_number(const Graph&, ValueId);
/// Whether the op reads elements beside those of the same part (a shift and a window do).
bool reads_beside(const Graph&, const Node&);
/// Same-name factors over all operands and results, in order of first appearance; contracted dims are those no result
/// has.
std::vector<Factor> factors_by_name(const Graph&, const Node&);

}  // namespace mesh
