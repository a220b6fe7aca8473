// The syntax tree of one .mesh file: exactly what `grammar/Mesh.g4` says, as plain structs with spans.
//
// It is what the parser makes and the formatter prints; nothing in it is resolved or checked. A declaration or a
// statement that failed to parse is left out (and reported), the rest stays. Children are owned; visit the variants
// with std::visit. Names, brackets, types and expressions are in `frontend/ast_expr.h`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "frontend/ast_expr.h"
#include "frontend/source.h"

namespace mesh::ast {

// ---- shared by files and bodies -----------------------------------------------------------------

// `x = 8192 edge "clamp"`
struct Dim {
  Name name;
  ExprPtr size;
  ExprPtr edge;  // may be null
  Span span;
};

// `dim batch = 32, seq = 1024`
struct Dims {
  std::vector<Dim> dims;
};

// `require heads * head_dim == embed`
struct Require {
  ExprPtr condition;
};

// `weight_decay: 0.1`
struct Attribute {
  Name key;
  ExprPtr value;
  Span span;
};

// `{ microbatches: 8, schedule: "1f1b" }`
using Attributes = std::vector<Attribute>;

// ---- statements of a model or a block -----------------------------------------------------------

struct Statement;
using Body = std::vector<Statement>;

// `input token, target : index(vocab)[batch, seq]`, `output u`
struct Port {
  enum class Direction { input, output };

  Direction direction;
  std::vector<Name> names;
  std::optional<Type> type;  // always there for an input
};

// `param wq, wk : real[embed, heads] = normal(std: 0.02)`, `param norm1, norm2 : layer_norm[embed]`
struct Parameter {
  std::vector<Name> names;
  Type type;
  ExprPtr initial;  // null: an instance of a block
};

// `state u : f64[x, y] = zeros`, `state average = w`
struct State {
  std::vector<Name> names;
  std::optional<Type> type;
  ExprPtr initial;
};

// `metric perplexity = exp(loss)`
struct Metric {
  Name name;
  ExprPtr value;
};

// `repeat layer { ... }`, `repeat layer as decoder { ... }`, `repeat sweep until gap < 1e-10 { ... }`
struct Repeat {
  Name dim;
  std::optional<Name> label;  // after `as`
  ExprPtr until;              // may be null
  Body body;
};

// `heads, ffn over model`, `over model(4)`: what a manual region does by hand, and the dims that are local there
struct Cut {
  std::vector<Name> dims;
  Name axis;
  ExprPtr parts;  // may be null
  Span span;
};

// `manual ffn over model, batch over data { ... }`
struct Manual {
  std::vector<Cut> cuts;
  Body body;
};

// `return combine(ys, plan), aux`
struct Return {
  std::vector<ExprPtr> values;
};

// `**.gain, **.bias { weight_decay: 0 }`, `encoder.** { frozen }`
struct ParameterGroup {
  std::vector<Glob> globs;
  Attributes attributes;  // empty when frozen
  bool frozen = false;
  Span span;
};

// `minimize loss over decoder.** with adamw(lr: 3e-4) { **.gain { weight_decay: 0 } }`
struct Minimize {
  Name loss;
  std::vector<Glob> over;  // empty: every parameter
  ExprPtr optimizer;
  std::vector<ParameterGroup> groups;
};

// `generate tgt along target from logits`
struct Generate {
  Name input;
  Name along;
  Name from;
};

// `q = dot[embed](x, wq)`, `y, a = moe(h)`, `gap : f64 = 1.0`
struct Bind {
  std::vector<Name> names;
  std::optional<Type> type;
  ExprPtr value;
};

// `u <- u + 0.1 * around`
struct Update {
  Name name;
  ExprPtr value;
};

struct Statement {
  using Node = std::variant<Port, Parameter, State, Dims, Require, Metric, Repeat, Manual, Return, Minimize, Generate,
                            Bind, Update>;

  Node node;
  Span span;
};

// ---- layouts ------------------------------------------------------------------------------------

// `kv * group`, `data`: dims side by side, or axes (the first is major)
struct Product {
  std::vector<Name> names;
  Span span;

  std::string text() const;
};

// What a rule places on: axes, or `none`.
struct Target {
  bool none = false;
  Product axes;  // empty for `none`
  Span span;
};

struct Rule;
using Rules = std::vector<Rule>;

// `heads, kv * group -> model unless batch { microbatches: 8 }`
struct Place {
  std::vector<Product> dims;
  Target target;
  std::vector<Name> unless;
  Attributes attributes;
};

// `params { embed -> data }`; also `grads optimizer activations state`
struct Scope {
  Name scope;
  Rules rules;
};

// `tensor layer.moe.gate { expert -> none }`
struct Pin {
  std::vector<Glob> tensors;
  Rules rules;
};

// `in enc { source -> model }`
struct Within {
  Glob path;
  Rules rules;
};

// `replicate over pipe`
struct Replicate {
  std::vector<Name> axes;
};

// `auto`: a search completes the layout
struct Auto {};

// `closed`: values keep exactly what the rules say
struct Closed {};

struct Rule {
  using Node = std::variant<Place, Scope, Pin, Within, Replicate, Auto, Closed>;

  Node node;
  Span span;
};

// ---- limits of a budget -------------------------------------------------------------------------

// `peak_memory <= 48 GiB`, `bytes over model <= 1 MiB`
struct Bound {
  Name quantity;
  std::optional<Name> over;
  CompareOp op;  // less_equal or equal
  ExprPtr value;
  std::optional<Name> unit;
};

// `forbid all_gather of params over model`
struct Forbid {
  Name collective;
  std::optional<Glob> of;
  std::optional<Name> over;
};

// `collectives in layer.attn over model == { all_gather: 2 }`
struct Collectives {
  Glob in;
  std::optional<Name> over;
  Attributes counts;
};

struct Limit {
  using Node = std::variant<Bound, Forbid, Collectives>;

  Node node;
  Span span;
};

// ---- declarations -------------------------------------------------------------------------------

// `import std.nn`, `import "layers.mesh"`
struct Import {
  std::variant<Path, std::string> target;
  Span target_span;
};

// `language 1`
struct Version {
  Number number;
};

// `window = 4096` of a `const`
struct Constant {
  Name name;
  ExprPtr value;
};

// `const window = 4096, base = 10000`
struct Constants {
  std::vector<Constant> constants;
};

// One group of arguments of a block: `x, y : real[..., d]`
struct BlockInput {
  std::vector<Name> names;
  Type type;
  Span span;
};

// `block linear[from, to](x : real[..., from]) -> real[..., to] { ... }`
struct Block {
  Name name;
  std::vector<Name> dims;  // dim parameters
  std::vector<BlockInput> inputs;
  std::vector<Type> results;
  bool result_list = false;  // the results stand in parentheses: `-> (real[d], f32)`
  Body body;
  Span head;  // from `block` to the last result type
};

// `model Gpt { ... }`
struct Model {
  Name name;
  Body body;
};

// `model: 8 within node`, `data: *`
struct Axis {
  Name name;
  ExprPtr size;  // null: `*`, whatever ranks remain
  std::optional<Name> within;
  Span span;
};

// `mesh pod { pipe: 3, data: 4, model: 8 }`; the last axis is innermost
struct Mesh {
  Name name;
  std::vector<Axis> axes;
};

// `layout megatron on pod { batch -> data }`
struct Layout {
  Name name;
  Name mesh;
  Rules rules;
};

// `precision mixed { compute: bf16, params: f32 }`
struct Precision {
  Name name;
  Attributes attributes;
};

// `budget megatron { peak_memory <= 48 GiB }`
struct Budget {
  Name layout;
  std::vector<Limit> limits;
};

struct Decl {
  using Node = std::variant<Import, Version, Dims, Constants, Require, Block, Model, Mesh, Layout, Precision, Budget>;

  Node node;
  Span span;
};

// `// the same positions under a second name`; not part of any declaration, kept for the formatter
struct Comment {
  Span span;
};

// One .mesh file.
struct File {
  // Made, moved and destroyed in one file: to generate that for so deep a struct takes each file a second.
  File();
  File(File&&) noexcept;
  File& operator=(File&&) noexcept;
  ~File();

  FileId file = 0;
  std::vector<Decl> decls;
  std::vector<Comment> comments;  // in order
};

}  // namespace mesh::ast

namespace mesh {

using Ast = ast::File;

}  // namespace mesh
