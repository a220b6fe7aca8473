#include "codegen/elaborate/calls.h"

#include <algorithm>
#include <array>

#include "codegen/elaborate/blocks.h"
#include "codegen/elaborate/collect.h"
#include "codegen/elaborate/expressions.h"
#include "codegen/elaborate/functions.h"
#include "codegen/elaborate/items.h"
#include "codegen/elaborate/manual_calls.h"
#include "codegen/elaborate/other_names.h"
#include "codegen/elaborate/terms.h"
#include "frontend/suggest.h"

namespace mesh::elaboration {
namespace {

/// Arguments of a call that means nothing are elaborated all the same: their own mistakes are reported.
std::vector<Term> give_up(Elaboration& e, Frame& frame, const ast::Call& call) {
  for (const ast::Argument& argument : call.arguments)
    if (ast::as<ast::String>(*argument.value) == nullptr) expression(e, frame, *argument.value);
  return {Term::poison()};
}

std::vector<Term> unknown_function(Elaboration& e, Frame& frame, const ast::Call& call) {
  const std::string name = call.callee.text();
  std::vector<std::string> known = function_names();
  known.emplace_back("collect");
  for (const std::string_view one : calls_across_ranks())
    if (one != name) known.emplace_back(one);
  for (const auto& [block, declared] : e.declared.blocks) known.push_back(block);
  for (const Frame* at = &frame; at != nullptr; at = at->outer)
    for (const auto& [bound, binding] : at->names)
      if (binding.kind == Binding::Kind::instance) known.push_back(bound);
  auto report = e.error("E0203", call.callee.span, "unknown function or block `{}`", name);
  const auto near = did_you_mean(name, known);
  const std::string_view other = written_here(name);
  if (near && (other.empty() || same_word(*near, name))) report.here("did you mean `{}`?", *near);
  else if (!other.empty()) report.help(std::string(other));
  else report.help("`meshc ops` lists the functions of the language; a block is declared in the file or imported");
  return give_up(e, frame, call);
}

std::vector<Term> cast_call(Elaboration& e, Frame& frame, const ast::Call& call, Type element, Span span) {
  if (call.arguments.size() != 1 || call.arguments[0].name || !call.items.empty()) {
    e.error("E0310", span, "the cast `{0}` takes one value: `{0}(x)`", call.callee.text());
    return give_up(e, frame, call);
  }
  return {cast_to(e, expression(e, frame, *call.arguments[0].value), element, {}, span)};
}

/// The row that fits the brackets; reports where none does.
const Function* choose_row(Elaboration& e, const ast::Call& call, const std::vector<const Function*>& rows, Span span) {
  const bool brackets = !call.items.empty();
  for (const Function* row : rows)
    if ((row->brackets != Function::Brackets::none) == brackets) return row;
  const std::string name = call.callee.text();
  if (brackets)
    e.error("E0310", cover(call.items.front().span, call.items.back().span), "`{}` takes no dims in brackets", name)
        .help(fmt::format("it works element by element: `{}(...)`", name));
  else
    e.error("E0310", call.callee.span, "`{}` needs {} in brackets", name,
            rows[0]->brackets == Function::Brackets::one ? "a dim" : "dims")
        .label(span, "")
        .help(fmt::format("`{}[dim](...)` says over which", name));
  return nullptr;
}

/// Fills in the dims of the brackets and where each stands.
bool read_brackets(Elaboration& e, Frame& frame, const ast::Call& call, const Function& row, CallSite& site) {
  const auto dims = listed_dims(e, frame, call.items, site.name);
  if (!dims) return false;
  site.dims = *dims;
  for (const ast::Item& item : call.items)
    site.dim_spans.insert(site.dim_spans.end(), item.rest ? frame.dims->rest->size() : 1, item.span);
  if (row.brackets == Function::Brackets::one && site.dims.size() != 1) {
    e.error("E0310", cover(call.items.front().span, call.items.back().span), "{} takes one dim in brackets", site.name)
        .here("{} are given", site.dims.size());
    return false;
  }
  return true;
}

/// `overflow: "drop"`. E0315 where it is no word.
bool read_word(Elaboration& e, const ast::Argument& argument, CallSite& site) {
  const auto* word = ast::as<ast::String>(*argument.value);
  if (word == nullptr) {
    e.error("E0315", argument.value->span, "`{}:` is a word in quotes", argument.name->text);
    return false;
  }
  site.words.try_emplace(argument.name->text, word->value, argument.value->span);
  return true;
}

bool moves_windows(const Function& row) { return std::ranges::count(row.options, "pad") > 0; }

/// `pad: (1, 2)`, `pad: "same"`: no value, but read as it is written.
bool is_padding(const Function& row, const ast::Argument& argument) {
  return argument.name && argument.name->text == "pad" && moves_windows(row);
}

bool says_how_windows_move(const std::string& name) {
  constexpr std::array<std::string_view, 4> words = {"stride", "strides", "dilate", "dilation"};
  return std::ranges::any_of(words, [&](std::string_view word) { return same_word(word, name); });
}

void unknown_argument(Elaboration& e, const Function& row, const CallSite& site, const ast::Name& name) {
  std::vector<std::string> known(row.options.begin(), row.options.end());
  known.insert(known.end(), row.words.begin(), row.words.end());
  auto report = e.error("E0310", name.span, "{} has no argument called `{}`", site.name, name.text);
  if (const auto meant = setting_meant(name.text, known)) report.here("did you mean `{}`?", *meant);
  else if (moves_windows(row) && says_how_windows_move(name.text))
    report.help("it stands in the brackets, as in `h: ky stride 2 dilate 2 as h2`");
  else report.help(known.empty() ? "it takes no argument by name" : "it takes " + quoted(known) + " by name");
}

bool read_arguments(Elaboration& e, Frame& frame, const ast::Call& call, const Function& row, CallSite& site) {
  bool good = true;
  for (const ast::Argument& argument : call.arguments) {
    if (is_padding(row, argument)) {
      site.pad = argument.value.get();
      continue;
    }
    if (argument.name && std::ranges::count(row.words, std::string_view(argument.name->text)) > 0) {
      good = read_word(e, argument, site) && good;
      continue;
    }
    const bool known = !argument.name || std::ranges::count(row.options, std::string_view(argument.name->text)) > 0;
    const bool quoted = ast::as<ast::String>(*argument.value) != nullptr;
    const Term term = known || !quoted ? expression(e, frame, *argument.value) : Term::poison();
    good = good && !term.poisoned();
    if (!argument.name) {
      site.arguments.push_back(term);
      site.spans.push_back(argument.value->span);
    } else if (!known) {
      unknown_argument(e, row, site, *argument.name);
      good = false;
    } else {
      site.options.try_emplace(argument.name->text, term, argument.value->span);
    }
  }
  const size_t given = site.arguments.size();
  if (given < row.least || given > row.most) {
    e.error("E0310", site.span, "{} takes {}{} argument{}, not {}", site.name, row.least,
            row.most == row.least + 1 ? fmt::format(" or {}", row.most) : "",
            row.least == 1 && row.most != 2 ? "" : "s", given);
    return false;
  }
  for (size_t i = 0; i < given && !row.takes_masked; ++i)
    if (site.arguments[i].is_masked()) tensor_of(e, site.arguments[i], site.spans[i]), good = false;
  return good;
}

std::vector<Term> function_call(Elaboration& e, Frame& frame, const ast::Call& call,
                                const std::vector<const Function*>& rows, Span span) {
  const Function* row = choose_row(e, call, rows, span);
  if (row == nullptr) return give_up(e, frame, call);
  CallSite site;
  site.name = "`" + call.callee.text() + "`";
  site.span = span;
  site.callee = call.callee.span;
  site.items = &call.items;
  site.frame = &frame;
  const bool as_written = row->brackets == Function::Brackets::items;
  const bool brackets_good = as_written || read_brackets(e, frame, call, *row, site);
  const bool arguments_good = read_arguments(e, frame, call, *row, site);
  if (!brackets_good || !arguments_good) return {Term::poison()};
  e.build.span = span;
  std::vector<Term> results{row->build(e, site)};
  results.insert(results.end(), site.further.begin(), site.further.end());
  return results;
}

/// Not what another library calls so: `permute(x, 0, 2, 1)`.
bool means_ranks(const Elaboration& e, const ast::Call& call) {
  const auto names_axis = [](const ast::Argument& argument) { return argument.name && argument.name->text == "over"; };
  return !e.regions.empty() || written_here(call.callee.text()).empty() ||
         std::ranges::any_of(call.arguments, names_axis);
}

bool draws_random_numbers(const std::string& name) {
  return name == "normal" || name == "truncated_normal" || name == "uniform";
}

}  // namespace

std::vector<Term> call_expression(Elaboration& e, Frame& frame, const ast::Call& call, Span span) {
  const std::string name = call.callee.text();
  if (!call.callee.simple()) {
    auto report =
        e.error("E0203", call.callee.span, "`{}` is no function, block or instance that can be called here", name);
    const std::string last = call.callee.parts.back().text, of = name.substr(0, name.rfind('.'));
    if (!functions_named(last).empty())
      report.help(fmt::format("a function takes its values in parentheses: `{}({})`", last, of));
    else report.help("an instance is called by the name that `param` gives it, in the body that declares it");
    return give_up(e, frame, call);
  }
  if (const Binding* binding = find_name(frame, name)) {
    if (binding->kind == Binding::Kind::instance) return call_instance(e, frame, *binding, call, span);
    if (binding->kind == Binding::Kind::value && binding->term.poisoned()) return give_up(e, frame, call);
    if (functions_named(name).empty() && !element_named(e, name)) {
      e.error("E0203", call.callee.span, "`{}` is a value, not a function", name).label(binding->span, "bound here");
      return give_up(e, frame, call);
    }
  }
  if (const auto block = e.declared.blocks.find(name); block != e.declared.blocks.end())
    return call_unnamed(e, frame, *block->second, call, span);
  if (const auto element = element_named(e, name)) return cast_call(e, frame, call, *element, span);
  if (const auto rows = functions_named(name); !rows.empty()) return function_call(e, frame, call, rows, span);
  if (name == "collect") return {collect(e, frame, call, span)};
  if (is_across_ranks(name) && means_ranks(e, call)) return {across_ranks(e, frame, call, span)};
  if (draws_random_numbers(name)) {
    e.error("E0318", span, "`{}` draws random numbers, which only a parameter's initial value may", name)
        .help("`random_normal[dim]()` and `random_uniform[dim]()` draw numbers in a step");
    return {Term::poison()};
  }
  return unknown_function(e, frame, call);
}

}  // namespace mesh::elaboration
