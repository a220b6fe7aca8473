// The syntax of names, square brackets, types and expressions. `frontend/ast.h` holds what they stand in.
//
// Plain structs: each keeps the span of the text that it came from, every name keeps its own. Nothing here is
// resolved or checked: a name is a string. The comment of each struct shows the syntax that it holds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "frontend/source.h"

namespace mesh::ast {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

// `embed`
struct Name {
  std::string text;
  Span span;
};

// `layer.attn.wq`; at least one part
struct Path {
  std::vector<Name> parts;
  Span span;

  std::string text() const;
  bool simple() const { return parts.size() == 1; }
};

// A pattern over paths: `layer.attn.wq`, `layer.*.gain`, `**.gain`. A part may be `*` (one part) or `**` (any number).
struct Glob {
  std::vector<Name> parts;
  Span span;

  std::string text() const;
};

// `50_257`, `3e-4`. `text` is as written; `value` is the nearest double.
struct Number {
  std::string text;
  double value = 0;
  Span span;

  // Written without a point or an exponent.
  bool integer() const;
};

// ---- what stands in square brackets -------------------------------------------------------------

// One side of an item: `seq`, `kv * group` (a product of dims), `cls + patch` (a sum of dims), `x + 1` (a neighbour).
struct Pick {
  enum class Kind { one, product, sum, shift };

  Kind kind = Kind::one;
  std::vector<Name> names;  // one for `one` and `shift`, else two or more
  std::int64_t shift = 0;   // `x + 1`: 1, `x - 2`: -2
  Span span;

  const Name& name() const { return names.front(); }
  std::string text() const;
};

// `: kx stride 2 dilate 2` in `conv[w: kx stride 2 dilate 2 as w2]`, `: 2 stride 2` in `max_pool[w: 2 stride 2 as w2]`
struct Window {
  Name dim;                    // of the windows' size
  std::optional<Number> size;  // or that itself
  std::optional<Number> stride;
  std::optional<Number> dilate;
  Span span;
};

// `= 0` selects; `= 1..`, `= 0..8 step 2` slice.
struct Range {
  ExprPtr begin;
  bool open = false;  // has `..`
  ExprPtr end;        // may be null: to the end of the dim
  std::optional<Number> step;
  Span span;
};

// What the shape of an item says. Its meaning depends on what the brackets belong to.
enum class ItemKind {
  rest,    // `...`
  dim,     // `embed`; also `kv * group`, dims side by side
  rename,  // `seq as key`
  split,   // `heads as kv * group`
  merge,   // `kv * group as heads`
  concat,  // `cls + patch as token`
  shift,   // `x + 1`
  select,  // `token = 0`; in the brackets of a block: the argument of a dim parameter, `query = source`
  slice,   // `token = 1.. as patch`
  window,  // `h: ky stride 2 as h2`
};

struct Item {
  bool rest = false;  // `...`; nothing else is set then
  Pick pick;
  std::optional<Window> window;
  std::optional<Range> range;
  std::optional<Pick> as;
  Span span;

  ItemKind kind() const;
};

// ---- types --------------------------------------------------------------------------------------

// A dim of a type, `...`, or the argument of a dim parameter: `embed`, `query = source`.
struct Slot {
  bool rest = false;
  Name dim;
  std::optional<Name> value;
  Span span;
};

// A tensor or a block instance: `real[batch, embed]`, `index(vocab)[batch, seq]`, `f32`, `layer_norm[embed]`.
struct Type {
  Name element;                  // `real`, `layer_norm`; "index" for `index(vocab)`
  std::optional<Name> index_of;  // `vocab` in `index(vocab)`
  std::vector<Slot> slots;
  Span span;
};

// ---- expressions --------------------------------------------------------------------------------

// `"drop"`; `value` is without the quotes
struct String {
  std::string value;
};

// `true`, `false`
struct Bool {
  bool value = false;
};

// `smoothing: 0.1` or `x`
struct Argument {
  std::optional<Name> name;
  ExprPtr value;
  Span span;
};

// `dot[embed](x, wq)`, `relu(x)`, `f32(x)`, `normal(std: 0.02)`, `attn(h)`
struct Call {
  Path callee;
  std::vector<Item> items;
  std::vector<Argument> arguments;
};

// `x[seq as key]`, `fan_in[embed]`, `size[seq]`, `p[two = 0]`
struct Index {
  ExprPtr value;
  std::vector<Item> items;
};

// `index(vocab)(x)`
struct Cast {
  Name index_of;
  ExprPtr value;
};

enum class UnaryOp { negate, logical_not };
enum class BinaryOp { add, subtract, multiply, divide, remainder, power };
enum class CompareOp { equal, not_equal, less_equal, greater_equal, less, greater };
enum class LogicalOp { logical_and, logical_or };

// As written: "-", "not", "+", "<=", "and", ...
const char* spelling(UnaryOp op);
const char* spelling(BinaryOp op);
const char* spelling(CompareOp op);
const char* spelling(LogicalOp op);

// `-x`, `not seen`
struct Unary {
  UnaryOp op;
  ExprPtr operand;
};

// `x + y`, `x ^ 2`
struct Binary {
  BinaryOp op;
  ExprPtr left, right;
  Span op_span;
};

// `position[seq] >= position[key]`
struct Compare {
  CompareOp op;
  ExprPtr left, right;
  Span op_span;
};

// `a and b`
struct Logical {
  LogicalOp op;
  ExprPtr left, right;
  Span op_span;
};

// `(x + y)`: one value in parentheses, kept so that the source can be printed as it was. `(a, b)`: several.
struct Group {
  std::vector<ExprPtr> values;
};

struct Expr {
  using Node = std::variant<Number, String, Bool, Path, Call, Index, Cast, Unary, Binary, Compare, Logical, Group>;

  Node node;
  Span span;
};

// The expression as T, or null: `if (const auto* call = ast::as<ast::Call>(expr)) ...`
template <class T>
const T* as(const Expr& expr) {
  return std::get_if<T>(&expr.node);
}

// The expression inside any number of parentheses: `((x))` gives `x`.
const Expr& without_parentheses(const Expr& expr);

}  // namespace mesh::ast
