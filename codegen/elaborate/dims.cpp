#include "codegen/elaborate/dims.h"

#include <algorithm>
#include <cstdlib>

#include "codegen/elaborate/expressions.h"
#include "frontend/size.h"
#include "frontend/suggest.h"

namespace mesh::elaboration {
namespace {

/// The sizes that are being evaluated, each for the one before it.
class Chain {
 public:
  explicit Chain(Elaboration& e) : e_(e) {}

  /// What `evaluate` gives, with `declared` in the chain meanwhile. E0206 and no size where it is there already.
  template <class Evaluate>
  NamedSize link(const ast::Name& declared, Evaluate evaluate) {
    const std::string& name = declared.text;
    if (const auto first = std::find(open_.begin(), open_.end(), name); first != open_.end()) {
      std::string circle;
      for (auto at = first; at != open_.end(); ++at) circle += *at + " -> ";
      e_.error("E0206", declared.span, "the size of `{}` depends on itself", name)
          .here("{}{}", circle, name)
          .help("give one of them a number");
      return NamedSize{{}, declared.span, {}};
    }
    constexpr size_t longest = 500;
    if (open_.size() == longest) {
      e_.error("E0119", declared.span, "more than {} sizes, each of which depends on the next", longest)
          .help("give one of them a number");
      return NamedSize{{}, declared.span, {}};
    }
    open_.push_back(name);
    NamedSize size = evaluate();
    open_.pop_back();
    return size;
  }

 private:
  Elaboration& e_;
  std::vector<std::string> open_;
};

/// Evaluates dims and consts in whatever order they refer to each other.
class Globals {
 public:
  explicit Globals(Elaboration& e) : e_(e), chain_(e) {
    for (const ast::Dim* dim : e.declared.dims) dims_[dim->name.text] = dim;
    for (const ast::Constant* constant : e.declared.constants) constants_[constant->name.text] = constant;
    scope_.find = [this](const std::string& name) { return find(name); };
    scope_.names = [this] { return names(); };
    scope_.training = e.options.purpose.training();
  }

  void evaluate() {
    for (const ast::Dim* dim : e_.declared.dims) find(dim->name.text);
    for (const ast::Constant* constant : e_.declared.constants) find(constant->name.text);
  }

  const SizeScope& scope() const { return scope_; }

  /// Consts that sizes have no arithmetic for, each after those that it names.
  const std::vector<const ast::Constant*>& inexact() const { return inexact_; }

 private:
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& [name, dim] : dims_) all.push_back(name);
    for (const auto& [name, constant] : constants_) all.push_back(name);
    return all;
  }

  std::optional<NamedSize> find(const std::string& name) {
    if (const auto known = e_.sizes.find(name); known != e_.sizes.end()) return known->second;
    const auto dim = dims_.find(name);
    const auto constant = constants_.find(name);
    if (dim == dims_.end() && constant == constants_.end()) return {};
    const ast::Name& declared = dim != dims_.end() ? dim->second->name : constant->second->name;
    NamedSize size =
        chain_.link(declared, [&] { return dim != dims_.end() ? size_of(*dim->second) : value_of(*constant->second); });
    e_.sizes[name] = size;
    return size;
  }

  NamedSize size_of(const ast::Dim& dim) {
    NamedSize size{{}, dim.name.span, {}};
    if (const std::string* set = given(dim.name, *dim.size, size)) {
      size.value = Rational::parse(*set);
      const bool whole = size.value && size.value->whole();
      if (whole && size.value->numerator() >= 1) return size;
      size.value.reset();
      e_.error("E0208", dim.name.span, "dim `{}` must be {}", dim.name.text, whole ? "at least 1" : "a whole number")
          .note(size.origin);
      return size;
    }
    const auto value = evaluate_size(*dim.size, scope_, *e_.sink, "dim `" + dim.name.text + "`");
    if (value) size.value = Rational(*value);
    return size;
  }

  /// What `--set` gives in place of `written`; says so in `size`. Null: nothing.
  const std::string* given(const ast::Name& name, const ast::Expr& written, NamedSize& size) const {
    const auto set = e_.options.set.find(name.text);
    if (set == e_.options.set.end()) return nullptr;
    size.origin = fmt::format("{0} = {1} was set on the command line (--set {0}={1}), over `{0} = {2}` on line {3}",
                              name.text, set->second, e_.sources.text(written.span), e_.sources.begin(name.span).line);
    return &set->second;
  }

  NamedSize value_of(const ast::Constant& constant) {
    NamedSize size{{}, constant.name.span, {}};
    const std::string& name = constant.name.text;
    if (const std::string* set = given(constant.name, *constant.value, size)) {
      if (ast::as<ast::Bool>(ast::without_parentheses(*constant.value)) != nullptr)
        e_.error("E0208", constant.name.span, "const `{}` is a truth value, not a number", name).note(size.origin);
      e_.constants[name] = Term::of(std::strtod(set->c_str(), nullptr));
      size.value = Rational::parse(*set);
      size.inexact = !size.value;
      return size;
    }
    // A plain number needs not be an exact fraction of 64 bits: `const small = 1e-30`.
    if (const auto* number = ast::as<ast::Number>(ast::without_parentheses(*constant.value))) {
      e_.constants[name] = Term::of(number->value);
      size.value = Rational::parse(number->text);
      size.inexact = !size.value;
      return size;
    }
    DiagnosticSink found;
    size.value = evaluate_fraction(*constant.value, scope_, found);
    e_.constants[name] = size.value ? Term::of(size.value->to_double()) : Term::poison();
    const std::vector<Diagnostic> errors = found.diagnostics();
    size.inexact = std::any_of(errors.begin(), errors.end(), [](const Diagnostic& one) {
      return one.code == "E0221" || one.code == "E0223" || one.code == "E0225";
    });
    if (size.inexact) inexact_.push_back(&constant);
    else
      for (const Diagnostic& one : errors) e_.sink->add(one);
    return size;
  }

  Elaboration& e_;
  SizeScope scope_;
  std::map<std::string, const ast::Dim*> dims_;
  std::map<std::string, const ast::Constant*> constants_;
  Chain chain_;
  std::vector<const ast::Constant*> inexact_;
};

/// The source of a size expression that is more than a number: "4 * embed".
std::string derivation(const Elaboration& e, const ast::Expr& expr) {
  if (ast::as<ast::Number>(expr) != nullptr) return {};
  return std::string(e.sources.text(expr.span));
}

std::vector<std::string> visible_dims(const Elaboration& e, const DimScope& scope) {
  std::vector<std::string> names;
  for (const auto& [name, dim] : scope.own) names.push_back(name);
  for (const auto& [name, dim] : e.global.own) names.push_back(name);
  return names;
}

SizeScope size_scope(const Elaboration& e, const DimScope& scope) {
  SizeScope result;
  result.find = [&e, &scope](const std::string& name) -> std::optional<NamedSize> {
    if (const auto own = scope.own.find(name); own != scope.own.end())
      return NamedSize{Rational(e.size(own->second)), e.graph.dim(own->second).span, {}};
    const auto global = e.sizes.find(name);
    if (global == e.sizes.end()) return {};
    return global->second;
  };
  result.names = [&e, &scope] { return visible_dims(e, scope); };
  result.training = e.options.purpose.training();
  return result;
}

/// A number as it is written, with its sign: it may be larger than a size.
std::optional<double> written_number(const ast::Expr& expr) {
  if (const auto* number = ast::as<ast::Number>(expr)) return number->value;
  const auto* unary = ast::as<ast::Unary>(expr);
  if (!unary || unary->op != ast::UnaryOp::negate) return {};
  const auto* number = ast::as<ast::Number>(ast::without_parentheses(*unary->operand));
  return number ? std::optional(-number->value) : std::nullopt;
}

/// What `edge` says, if it is there; after an error some edge, as there is one. E0331.
std::optional<Edge> edge_of(Elaboration& e, const SizeScope& scope, const ast::Dim& dim) {
  if (dim.edge == nullptr) return {};
  const ast::Expr& expr = ast::without_parentheses(*dim.edge);
  if (const auto* word = ast::as<ast::String>(expr)) {
    if (word->value == "wrap") return Edge{Edge::Kind::wrap};
    if (word->value == "clamp") return Edge{Edge::Kind::clamp};
    auto report = e.error("E0331", expr.span, "unknown edge \"{}\"", word->value);
    if (const auto near = did_you_mean(word->value, {"wrap", "clamp"})) report.here("did you mean \"{}\"?", *near);
    report.help("an edge is \"wrap\" (the other end follows), \"clamp\" (the last element goes on) or a number");
    return Edge{};
  }
  if (const auto number = written_number(expr)) return Edge{Edge::Kind::value, *number};
  const auto value = evaluate_number(expr, scope, *e.sink);
  return value ? Edge{Edge::Kind::value, value->to_double()} : Edge{};
}

/// One dim for each size that a local dim takes: instances of a block share it.
DimId local_dim(Elaboration& e, const std::string& name, int64_t size, const ast::Dim& dim) {
  std::string taken = name;
  for (uint32_t i = 0; i < e.graph.dims.size(); ++i) {
    if (e.graph.dims[i].name != taken) continue;
    if (e.graph.dims[i].size == size) return DimId{i};
    taken = fmt::format("{}_{}", name, size);
    i = 0;
  }
  return e.build.dim(taken, size, dim.name.span, derivation(e, *dim.size));
}

/// Declares the dims of a body in whatever order they refer to each other.
class Locals {
 public:
  Locals(Elaboration& e, DimScope& scope, const ast::Body& body)
      : e_(e), scope_(scope), known_(size_scope(e, scope)), sizes_(known_), chain_(e) {
    sizes_.find = [this](const std::string& name) { return find(name); };
    sizes_.names = [this] { return names(); };
    for (const ast::Statement& statement : body)
      if (const auto* dims = std::get_if<ast::Dims>(&statement.node))
        for (const ast::Dim& dim : dims->dims) add(dim);
  }

  void declare() {
    for (const ast::Dim* dim : dims_) find(dim->name.text);
    for (const ast::Dim* dim : dims_)
      if (const auto own = scope_.own.find(dim->name.text); own != scope_.own.end())
        e_.graph.dim(own->second).edge = edge_of(e_, known_, *dim);
  }

 private:
  void add(const ast::Dim& dim) {
    const std::string& name = dim.name.text;
    const DimId known = find_dim(e_, scope_, name);
    const ast::Dim* const here = dim_here(name);
    if (!known && here == nullptr) return dims_.push_back(&dim);
    const bool parameter =
        known && scope_.own.count(name) > 0 && !e_.graph.dim(known).name.starts_with(scope_.owner + ".");
    e_.error("E0204", dim.name.span, "dim `{}` is declared already", name)
        .here("again here")
        .label(known ? e_.graph.dim(known).span : here->name.span, parameter ? "bound to this dim" : "first here");
  }

  const ast::Dim* dim_here(const std::string& name) const {
    const auto at =
        std::find_if(dims_.begin(), dims_.end(), [&](const ast::Dim* dim) { return dim->name.text == name; });
    return at == dims_.end() ? nullptr : *at;
  }

  std::vector<std::string> names() const {
    std::vector<std::string> all = known_.names();
    for (const ast::Dim* dim : dims_)
      if (scope_.own.count(dim->name.text) == 0) all.push_back(dim->name.text);
    return all;
  }

  std::optional<NamedSize> find(const std::string& name) {
    const ast::Dim* const dim = dim_here(name);
    if (dim == nullptr || scope_.own.count(name) > 0) return known_.find(name);
    if (scope_.broken.count(name) > 0) return NamedSize{{}, dim->name.span, {}};
    return chain_.link(dim->name, [&] {
      NamedSize size{{}, dim->name.span, {}};
      if (const auto value = evaluate_size(*dim->size, sizes_, *e_.sink, "dim `" + name + "`")) {
        size.value = Rational(*value);
        scope_.own[name] = local_dim(e_, scope_.owner + "." + name, *value, *dim);
      } else {
        scope_.broken.insert(name);
      }
      return size;
    });
  }

  Elaboration& e_;
  DimScope& scope_;
  const SizeScope known_;  // what stands around the body, and its own dims that are declared
  SizeScope sizes_;        // those and all dims of the body
  std::vector<const ast::Dim*> dims_;
  Chain chain_;
};

/// `const root = sqrt(2)`, `const causal = true`: folded as in a model. E0315.
void fold(Elaboration& e, const ast::Constant& constant) {
  Frame frame;
  frame.dims = &e.global;
  frame.attributes = true;
  const Term term = expression(e, frame, *constant.value);
  if (term.is_number() || term.is_truth()) e.constants[constant.name.text] = term;
  else if (!term.poisoned())
    e.error("E0315", constant.value->span, "const `{}` must be a number that is known now", constant.name.text)
        .here("this is {}", describe(e, term));
}

}  // namespace

void declare_globals(Elaboration& e) {
  for (const auto& [name, size] : e.options.set) {
    std::vector<std::string> known;
    for (const ast::Dim* dim : e.declared.dims) known.push_back(dim->name.text);
    for (const ast::Constant* constant : e.declared.constants) known.push_back(constant->name.text);
    if (std::ranges::count(known, name) > 0) continue;
    auto report = e.error("E0208", Span{}, "`--set {}={}` names no dim and no const", name, size);
    if (const auto near = did_you_mean(name, known))
      report.help(fmt::format("did you mean `--set {}={}`?", *near, size));
    else report.note("dims and consts of the spec: " + quoted(known));
  }
  Globals globals(e);
  globals.evaluate();
  for (const ast::Dim* dim : e.declared.dims) {
    const NamedSize& size = e.sizes.at(dim->name.text);
    if (!size.value) continue;
    const bool set = e.options.set.count(dim->name.text) > 0;
    const DimId id = e.build.dim(dim->name.text, size.value->numerator(), dim->name.span,
                                 set ? std::string() : derivation(e, *dim->size));
    e.graph.dim(id).edge = edge_of(e, globals.scope(), *dim);
    e.global.own[dim->name.text] = id;
  }
  for (const ast::Constant* constant : globals.inexact()) fold(e, *constant);
  for (const ast::Require* require : e.declared.requirements) check_require(*require, globals.scope(), *e.sink);
}

void declare_local(Elaboration& e, DimScope& scope, const ast::Body& body) { Locals(e, scope, body).declare(); }

void check_requirement(Elaboration& e, const DimScope& scope, const ast::Require& require) {
  check_require(require, size_scope(e, scope), *e.sink);
}

DimId twin(Elaboration& e, DimId dim, const std::string& ending, std::optional<int64_t> size) {
  const std::string name = e.name(dim) + ending;
  const Span span = e.graph.dim(dim).span;
  for (uint32_t i = 0; i < e.graph.dims.size(); ++i) {
    const Dim& known = e.graph.dims[i];
    if (known.name == name && known.span == span && known.size == size.value_or(e.size(dim))) return DimId{i};
  }
  return e.build.dim(name, size.value_or(e.size(dim)), span);
}

DimId find_dim(const Elaboration& e, const DimScope& scope, const std::string& name) {
  if (const auto own = scope.own.find(name); own != scope.own.end()) return own->second;
  if (const auto global = e.global.own.find(name); global != e.global.own.end()) return global->second;
  return {};
}

DimId dim_named(Elaboration& e, const DimScope& scope, const ast::Name& name) {
  if (const DimId dim = find_dim(e, scope, name.text)) return dim;
  if (scope.broken.count(name.text) > 0) return {};  // its declaration was reported
  if (const auto size = e.sizes.find(name.text); size != e.sizes.end()) {
    if (e.constants.count(name.text) > 0)
      e.error("E0205", name.span, "`{}` is a const, not a dim", name.text)
          .label(size->second.declared, "declared here")
          .help(fmt::format("`dim {} = ...` makes it a dim", name.text));
    return {};
  }
  auto report = e.error("E0201", name.span, "unknown dim `{}`", name.text);
  if (const auto near = did_you_mean(name.text, visible_dims(e, scope))) {
    const Span declared = e.graph.dim(find_dim(e, scope, *near)).span;
    report.here("did you mean `{}`? (declared on line {})", *near, e.sources.begin(declared).line)
        .fix(name.span, *near);
  } else if (const auto known = visible_dims(e, scope); !known.empty()) {
    report.note("dims here: " + some_of(known)).help(fmt::format("`dim {} = ...` declares one", name.text));
  }
  return {};
}

}  // namespace mesh::elaboration
