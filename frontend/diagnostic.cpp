#include "frontend/diagnostic.h"

#include <algorithm>
#include <stdexcept>
#include <tuple>

namespace mesh {

const std::vector<Lint>& known_lints() {
  static const std::vector<Lint> lints = {
      {"absent_axis", LintLevel::warn, "a manual region is over an axis that no mesh of the spec has"},
      {"batch_coupled", LintLevel::deny, "an op mixes samples although the batch is split into micro-batches"},
      {"changes_numbers", LintLevel::warn,
       "replicas train apart between synchronisations: the layout gives other numbers than one rank"},
      {"completed_twice", LintLevel::warn,
       "parts of one partial sum are added up apart, with more bytes than all of it at once"},
      {"costly_reshard", LintLevel::warn,
       "a value is moved with more than twice the bytes that any way of moving it needs"},
      {"diagonal_softmax", LintLevel::warn,
       "a softmax over a dim that both operands of a product have: every entry has met itself alone"},
      {"idle_mesh_axis", LintLevel::warn, "no rule of the layout uses a mesh axis: its ranks repeat the same work"},
      {"idle_ranks", LintLevel::warn, "a dim is smaller than the mesh axis that splits it: some ranks own nothing"},
      {"not_built_yet", LintLevel::warn, "a construct that this version understands but cannot compile yet"},
      {"over_memory", LintLevel::warn, "ranks hold more memory than a host, or `--memory`, gives them"},
      {"oversubscribed", LintLevel::warn, "more ranks than this machine has cores"},
      {"repeated_work", LintLevel::warn,
       "the ranks of a mesh axis do the same for a large part of the step, though a rule splits over it"},
      {"unchecked_layout", LintLevel::warn, "`check` leaves a layout out whose mesh takes what ranks remain (`*`)"},
      {"uneven_stages", LintLevel::warn, "the stages of a pipeline differ in cost"},
      {"unused_block", LintLevel::warn, "no model calls a block, so that nothing in it is checked but its syntax"},
      {"unused_dim", LintLevel::warn, "a declared dim is used nowhere"},
      {"unused_layout_rule", LintLevel::warn, "a layout rule places a dim that nothing it speaks of has"},
      {"unused_parameter", LintLevel::warn, "a parameter is trained although the loss does not depend on it"},
      {"unused_value", LintLevel::warn, "a value is computed and used nowhere"},
  };
  return lints;
}

DiagnosticBuilder& DiagnosticBuilder::here(std::string text) {
  if (diagnostic_ != nullptr) diagnostic_->labels.front().text = std::move(text);
  return *this;
}

DiagnosticBuilder& DiagnosticBuilder::label(Span span, std::string text) {
  if (diagnostic_ != nullptr && span.known()) diagnostic_->labels.push_back(Label{span, std::move(text), false});
  return *this;
}

DiagnosticBuilder& DiagnosticBuilder::note(std::string text) {
  if (diagnostic_ != nullptr) diagnostic_->notes.push_back(std::move(text));
  return *this;
}

DiagnosticBuilder& DiagnosticBuilder::help(std::string text) {
  if (diagnostic_ != nullptr) diagnostic_->helps.push_back(std::move(text));
  return *this;
}

DiagnosticBuilder& DiagnosticBuilder::fix(Span span, std::string replacement) {
  if (diagnostic_ != nullptr) diagnostic_->fixes.push_back(Fix{span, std::move(replacement)});
  return *this;
}

DiagnosticBuilder& DiagnosticBuilder::alternative(Span span, std::string replacement) {
  if (diagnostic_ != nullptr) diagnostic_->alternatives.push_back(Fix{span, std::move(replacement)});
  return *this;
}

DiagnosticBuilder DiagnosticSink::error(std::string code, Span span, std::string message) {
  return report(Level::error, std::move(code), span, std::move(message));
}

DiagnosticBuilder DiagnosticSink::warning(std::string code, Span span, std::string message) {
  return report(Level::warning, std::move(code), span, std::move(message));
}

DiagnosticBuilder DiagnosticSink::lint(std::string_view name, Span span, std::string message) {
  const LintLevel level = lint_level(name);
  if (level == LintLevel::allow) return DiagnosticBuilder(nullptr);
  return report(level == LintLevel::deny ? Level::error : Level::warning, std::string(name), span, std::move(message));
}

void DiagnosticSink::add(Diagnostic diagnostic) { reported_.push_back(std::move(diagnostic)); }

static const Lint* find_lint(std::string_view name) {
  const auto& lints = known_lints();
  const auto found = std::find_if(lints.begin(), lints.end(), [&](const Lint& lint) { return lint.name == name; });
  return found == lints.end() ? nullptr : &*found;
}

bool DiagnosticSink::set_lint_level(std::string_view name, LintLevel level) {
  if (find_lint(name) == nullptr) return false;
  lint_levels_[std::string(name)] = level;
  return true;
}

LintLevel DiagnosticSink::lint_level(std::string_view name) const {
  if (const auto set = lint_levels_.find(name); set != lint_levels_.end()) return set->second;
  const Lint* lint = find_lint(name);
  if (lint == nullptr) throw std::logic_error("there is no lint called " + std::string(name));
  return lint->level;
}

std::size_t DiagnosticSink::error_count() const {
  return static_cast<std::size_t>(std::count_if(reported_.begin(), reported_.end(),
                                                [](const Diagnostic& one) { return one.level == Level::error; }));
}

std::vector<Diagnostic> DiagnosticSink::diagnostics() const {
  std::vector<Diagnostic> sorted(reported_.begin(), reported_.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return std::tuple(a.span().file, a.span().begin) < std::tuple(b.span().file, b.span().begin);
  });
  std::vector<Diagnostic> unique;
  for (Diagnostic& one : sorted) {
    const bool repeated = std::any_of(unique.begin(), unique.end(), [&](const Diagnostic& other) {
      return other.span() == one.span() && other.code == one.code && other.message == one.message;
    });
    if (!repeated) unique.push_back(std::move(one));
  }
  return unique;
}

DiagnosticBuilder DiagnosticSink::report(Level level, std::string code, Span span, std::string message) {
  reported_.push_back(Diagnostic{level, std::move(code), std::move(message), {Label{span, "", true}}, {}, {}, {}, {}});
  return DiagnosticBuilder(&reported_.back());
}

}  // namespace mesh
