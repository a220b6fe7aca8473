#include "codegen/elaborate/blocks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "codegen/elaborate/dims.h"
#include "codegen/elaborate/expressions.h"
#include "codegen/elaborate/names.h"
#include "codegen/elaborate/recursion.h"
#include "codegen/elaborate/statements.h"
#include "codegen/elaborate/terms.h"
#include "frontend/print_ast.h"
#include "frontend/suggest.h"

namespace mesh::elaboration {
namespace {

/// One argument of the block with what the call gives for it.
struct BoundArgument {
  const ast::Name* name;
  WrittenType type;
  Term term;
  Span span;
};

std::string signature(const ast::Block& block) {
  std::string text = block.name.text + "(";
  for (const ast::BlockInput& input : block.inputs)
    for (const ast::Name& name : input.names) text += (text.back() == '(' ? "" : ", ") + name.text;
  return text + ")";
}

/// The terms of the call in the order of the block's arguments; E0310 for wrong counts and names.
std::optional<std::vector<BoundArgument>> bind_arguments(Elaboration& e, Frame& frame, const ast::Block& block,
                                                         const DimScope& scope, const ast::Call& call, Span span) {
  std::vector<BoundArgument> bound;
  bool good = true;
  for (const ast::BlockInput& input : block.inputs) {
    const auto type = written_type(e, scope, input.type);
    good = good && type.has_value();
    for (const ast::Name& name : input.names)
      bound.push_back({&name, type.value_or(WrittenType{}), Term::poison(), {}});
  }
  size_t next = 0;
  for (const ast::Argument& argument : call.arguments) {
    const Term term = expression(e, frame, *argument.value);
    BoundArgument* target = nullptr;
    if (!argument.name) {
      if (next < bound.size()) target = &bound[next];
      ++next;
    } else {
      for (BoundArgument& one : bound)
        if (one.name->text == argument.name->text) target = &one;
    }
    if (argument.name && target == nullptr) {
      std::vector<std::string> names;
      names.reserve(bound.size());
      for (const BoundArgument& one : bound) names.push_back(one.name->text);
      auto report = e.error("E0310", argument.name->span, "block `{}` has no argument `{}`", block.name.text,
                            argument.name->text);
      if (const auto near = did_you_mean(argument.name->text, names)) report.here("did you mean `{}`?", *near);
      report.label(block.head, signature(block));
      good = false;
      continue;
    }
    if (target == nullptr) continue;  // counted below
    if (target->span.known()) {
      e.error("E0310", argument.name ? argument.name->span : argument.value->span, "block `{}` is given `{}` twice",
              block.name.text, target->name->text)
          .label(block.head, signature(block));
      good = false;
      continue;
    }
    target->term = term;
    target->span = argument.value->span;
  }
  const auto lacking =
      std::find_if(bound.begin(), bound.end(), [](const BoundArgument& one) { return !one.span.known(); });
  if (next > bound.size() || (good && lacking != bound.end())) {
    auto report = e.error("E0310", span, "block `{}` takes {} argument{}, not {}", block.name.text, bound.size(),
                          bound.size() == 1 ? "" : "s", call.arguments.size());
    report.label(block.head, signature(block));
    if (lacking != bound.end()) report.here("`{}` is not given", lacking->name->text);
    return {};
  }
  if (!good) return {};
  return bound;
}

/// What `...` stands for: the dims of the arguments that the signature does not name.
std::vector<DimId> rest_of(const Elaboration& e, const std::vector<BoundArgument>& arguments) {
  std::vector<DimId> rest;
  for (const BoundArgument& argument : arguments) {
    if (!argument.type.rest || !argument.term.is_tensor()) continue;
    for (DimId dim : missing_from(argument.type.dims, e.type(argument.term.value).dims))
      if (!contains(rest, dim)) rest.push_back(dim);
  }
  return rest;
}

/// The argument because of which `...` stands for a dim.
const BoundArgument& bringing(const Elaboration& e, const std::vector<BoundArgument>& arguments, DimId dim) {
  return *std::ranges::find_if(arguments, [&](const BoundArgument& one) {
    return one.type.rest && one.term.is_tensor() && !contains(one.type.dims, dim) &&
           contains(e.type(one.term.value).dims, dim);
  });
}

/// E0312 where a type's `...` stands for a dim that the type names besides.
bool rest_is_apart(Elaboration& e, const WrittenType& type, const std::vector<DimId>& rest,
                   const std::vector<BoundArgument>& arguments, const ast::Block& block, Span span) {
  if (!type.rest) return true;
  for (DimId dim : rest) {
    if (!contains(type.dims, dim)) continue;
    e.error("E0312", span, "a type of block `{}` would have dim `{}` twice", block.name.text, e.name(dim))
        .here("`...` stands for `{}` here", e.name(dim))
        .label(type.span, "names `{}` besides", e.name(dim))
        .help(fmt::format("rename it in what brings it: `({})[{} as other]`",
                          e.sources.text(bringing(e, arguments, dim).span), e.name(dim)));
    return false;
  }
  return true;
}

std::vector<Term> poisoned(const ast::Block& block) {
  return std::vector<Term>(std::max<size_t>(block.results.size(), 1));
}

/// Casts what the body returned to the declared types.
std::vector<Term> returned(Elaboration& e, const ast::Block& block, const Frame& body,
                           const std::vector<BoundArgument>& arguments, Span span) {
  if (!body.returned.known()) {
    e.error("E0317", block.head, "block `{}` returns nothing", block.name.text)
        .help("its last statement must be `return ...`");
    return poisoned(block);
  }
  if (body.results.size() != block.results.size()) {
    e.error("E0317", body.returned, "block `{}` declares {} result{} but returns {}", block.name.text,
            block.results.size(), block.results.size() == 1 ? "" : "s", body.results.size())
        .label(block.head, "declared here");
    return poisoned(block);
  }
  std::vector<Term> results;
  for (size_t i = 0; i < block.results.size(); ++i) {
    const auto type = written_type(e, *body.dims, block.results[i]);
    if (!type) {
      results.push_back(Term::poison());
      continue;
    }
    if (type->rest && !body.dims->rest) {
      e.error("E0310", type->span, "`...` in a result stands for what the arguments' `...` matched, and there is none");
      results.push_back(Term::poison());
      continue;
    }
    if (body.dims->rest && !rest_is_apart(e, *type, *body.dims->rest, arguments, block, span)) return poisoned(block);
    const ValueType wanted = type->with_rest(body.dims->rest.value_or(std::vector<DimId>{}));
    const std::string what = fmt::format("`{}` is declared to return", block.name.text);
    results.push_back(as_written(e, body.results[i].first, wanted, body.results[i].second, type->span, what, true));
  }
  e.build.span = span;
  return results;
}

/// Where the values of a call are: at the instance, as the frame that declares it is called; of the second call "f#2".
std::string path_of_call(Elaboration& e, const Frame& frame, const Instance& instance) {
  const Frame* owner = &frame;
  while (owner->outer != nullptr && !instance.path.starts_with(owner->path + ".")) owner = owner->outer;
  const std::string path = join(owner->call, instance.path.substr(owner->path.empty() ? 0 : owner->path.size() + 1));
  const int number = ++e.tables.calls[path];
  return number == 1 ? path : fmt::format("{}#{}", path, number);
}

std::vector<Term> inline_block(Elaboration& e, Frame& frame, const Instance& instance, const std::vector<Loop*>& home,
                               const ast::Call& call, Span span) {
  const ast::Block& block = *instance.block;
  const auto arguments = bind_arguments(e, frame, block, instance.dims, call, span);
  if (!arguments) return poisoned(block);
  const Inlining inlining(e, block, span);
  if (!inlining.legal ||
      is_too_large(e, {e.graph.nodes.size(), "operations", "every call of a block writes its body again"},
                   e.calls.front().second))
    return poisoned(block);
  DimScope scope = instance.dims;
  if (std::any_of(arguments->begin(), arguments->end(), [](const BoundArgument& a) { return a.type.rest; }))
    scope.rest = rest_of(e, *arguments);
  for (const BoundArgument& argument : *arguments)
    if (scope.rest && !rest_is_apart(e, argument.type, *scope.rest, *arguments, block, argument.span))
      return poisoned(block);
  Frame body;
  body.path = instance.path;
  body.call = path_of_call(e, frame, instance);
  body.dims = &scope;
  body.home = home;
  body.block = &block;
  for (const BoundArgument& argument : *arguments) {
    const ValueType wanted = argument.type.with_rest(scope.rest.value_or(std::vector<DimId>{}));
    const std::string what = fmt::format("`{}` of `{}` is declared", argument.name->text, block.name.text);
    Binding binding;
    binding.term = as_written(e, argument.term, wanted, argument.span, argument.type.span, what, true);
    binding.span = argument.name->span;
    body.names.emplace(argument.name->text, binding);
  }
  const std::string outer_scope = std::exchange(e.build.scope, instance.path);
  const std::string outer_call = std::exchange(e.build.call, body.call);
  statements(e, body, block.body);
  std::vector<Term> results = returned(e, block, body, *arguments, span);
  e.build.scope = outer_scope;
  e.build.call = outer_call;
  if (results.size() == 1) record_name(e, body.call, results.front());
  return results;
}

}  // namespace

bool is_too_large(Elaboration& e, const Made& made, Span span) {
  constexpr size_t most = 100'000;
  if (made.count < most) return false;
  if (!e.tables.too_large)
    e.error("E0119", span, "the model has more than {} {}", most, made.what)
        .here("{}", made.why)
        .help("to stack copies, use `repeat layer { ... }`");
  e.tables.too_large = true;
  return true;
}

std::optional<DimScope> bind_dims(Elaboration& e, const DimScope& caller, const ast::Block& block,
                                  const std::vector<DimArgument>& arguments, Span span) {
  DimScope scope;
  scope.owner = block.name.text;
  bool good = true;
  size_t next = 0;
  std::vector<std::string> names;
  for (const ast::Name& name : block.dims) names.push_back(name.text);
  for (const DimArgument& argument : arguments) {
    const DimId dim = dim_named(e, caller, argument.dim);
    good = good && bool(dim);
    std::string parameter;
    if (argument.parameter) {
      parameter = argument.parameter->text;
      if (std::find(names.begin(), names.end(), parameter) == names.end()) {
        auto report = e.error("E0216", argument.parameter->span, "block `{}` has no dim parameter `{}`",
                              block.name.text, parameter);
        if (const auto near = did_you_mean(parameter, names)) report.here("did you mean `{}`?", *near);
        report.label(block.head, "declared here");
        good = false;
        continue;
      }
    } else if (next < names.size()) {
      parameter = names[next++];
    } else {
      e.error("E0216", argument.dim.span, "block `{}` has {} dim parameter{}, not {}", block.name.text, names.size(),
              names.size() == 1 ? "" : "s", arguments.size())
          .label(block.head, "declared here");
      return {};
    }
    if (!scope.own.emplace(parameter, dim).second) {
      e.error("E0216", argument.dim.span, "dim parameter `{}` of block `{}` is bound twice", parameter, block.name.text)
          .label(block.head, "declared here");
      good = false;
    }
  }
  if (!good) return {};
  std::vector<std::string> unbound;
  for (const std::string& name : names)
    if (scope.own.count(name) == 0) unbound.push_back(name);
  if (unbound.empty()) return scope;
  std::string example;
  for (const std::string& name : names) example += (example.empty() ? "" : ", ") + name + " = ...";
  e.error("E0216", span, "block `{}` needs its dim{} {}", block.name.text, unbound.size() == 1 ? "" : "s",
          quoted(unbound))
      .label(block.head, "declared here")
      .help(fmt::format("`{}[{}]`", block.name.text, example));
  return {};
}

std::vector<Term> call_instance(Elaboration& e, Frame& frame, const Binding& binding, const ast::Call& call,
                                Span span) {
  if (!call.items.empty()) {
    e.error("E0216", cover(call.items.front().span, call.items.back().span),
            "the dims of instance `{}` are bound where it is declared", call.callee.text())
        .label(binding.span, "declared here")
        .help(fmt::format("`{}(...)` calls it", call.callee.text()));
    return poisoned(*binding.instance->block);
  }
  return inline_block(e, frame, *binding.instance, binding.home, call, span);
}

/// `[embed, out = ffn]`, or nothing.
std::string in_brackets(const std::vector<ast::Item>& items) {
  std::vector<std::string> texts;
  texts.reserve(items.size());
  for (const ast::Item& item : items) texts.push_back(print(item));
  return texts.empty() ? "" : fmt::format("[{}]", fmt::join(texts, ", "));
}

std::vector<Term> call_unnamed(Elaboration& e, Frame& frame, const ast::Block& block, const ast::Call& call,
                               Span span) {
  std::vector<DimArgument> arguments;
  for (const ast::Item& item : call.items) {
    const ast::Path* value = nullptr;
    if (item.kind() == ast::ItemKind::select && item.range) value = ast::as<ast::Path>(*item.range->begin);
    if (item.kind() == ast::ItemKind::dim && item.pick.kind == ast::Pick::Kind::one) {
      arguments.push_back({{}, item.pick.name()});
    } else if (value != nullptr && value->simple()) {
      arguments.push_back({item.pick.name(), value->parts.front()});
    } else {
      e.error("E0216", item.span, "brackets after block `{}` bind its dims", block.name.text)
          .help("`[dim]` in order, or `[parameter = dim]`");
      return poisoned(block);
    }
  }
  const auto bound = bind_dims(e, *frame.dims, block, arguments, span);
  if (!bound) return poisoned(block);
  const std::string path = join(frame.path, block.name.text);
  if (owns_parameters(e, block)) {
    const auto [first, fresh] = e.tables.unnamed.try_emplace(path, span);
    if (!fresh && first->second != span) {
      e.error("E0213", span, "a second unnamed instance of block `{}` in one scope", block.name.text)
          .label(first->second, "the first, which owns `{}`", path)
          .help(fmt::format("name both: `param first, second : {}{}`, then `first(...)`", block.name.text,
                            in_brackets(call.items)));
      return poisoned(block);
    }
    if (const auto known = e.tables.instances.find(path); known != e.tables.instances.end())
      return inline_block(e, frame, *known->second, frame.home, call, span);
  }
  Instance& instance = e.owned_instances.emplace_back(Instance{&block, path, *bound});
  {
    const Inlining inlining(e, block, span);
    if (!inlining.legal) return poisoned(block);
    std::vector<DimId> loops;
    for (const Loop* loop : frame.home) loops.push_back(loop->dim);
    declare_body(e, instance.dims, path, block.body, loops);
  }
  if (owns_parameters(e, block)) e.tables.instances[path] = &instance;
  return inline_block(e, frame, instance, frame.home, call, span);
}

}  // namespace mesh::elaboration
