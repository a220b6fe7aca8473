#include "codegen/elaborate/context.h"

#include <algorithm>

namespace mesh::elaboration {

DiagnosticBuilder Elaboration::with_instance(DiagnosticBuilder report) const {
  for (auto call = calls.rbegin(); call != calls.rend(); ++call) {
    if (call->first->dims.empty()) continue;
    report.note(fmt::format("in block `{}`, used as `{}` ({})", call->first->name.text, sources.text(call->second),
                            sources.file_and_line(call->second)));
    break;
  }
  return report;
}

Term not_built(Elaboration& e, Span span, const std::string& what, const std::string& instead) {
  auto report = e.error("E0901", span, "{} is not built yet", what);
  report.here("this version cannot compile it");
  if (!instead.empty()) report.help(instead);
  return Term::poison();
}

std::string join(const std::string& path, const std::string& name) {
  if (path.empty() || name.empty()) return path + name;
  return path + "." + name;
}

std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += "`" + names[i] + "`";
  }
  return text;
}

std::string quoted(const Elaboration& e, const std::vector<DimId>& dims) {
  std::vector<std::string> names;
  names.reserve(dims.size());
  for (DimId dim : dims) names.push_back(e.name(dim));
  return quoted(names);
}

std::string describe(const Elaboration& e, const Term& term) {
  switch (term.kind) {
    case Term::Kind::poison: return "a mistake";
    case Term::Kind::number: return fmt::format("the number {}", term.number);
    case Term::Kind::truth: return term.truth ? "`true`" : "`false`";
    case Term::Kind::tensor: return to_string(e.graph, e.type(term.value));
    case Term::Kind::masked: return "a masked " + to_string(e.graph, e.type(term.value));
    case Term::Kind::plan: return "a plan of `route`";
  }
  return "?";
}

bool contains(const std::vector<DimId>& dims, DimId dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

bool contains_all(const std::vector<DimId>& all, const std::vector<DimId>& some) {
  return std::all_of(some.begin(), some.end(), [&](DimId dim) { return contains(all, dim); });
}

std::vector<DimId> missing_from(const std::vector<DimId>& all, const std::vector<DimId>& some) {
  std::vector<DimId> missing;
  for (DimId dim : some)
    if (!contains(all, dim)) missing.push_back(dim);
  return missing;
}

}  // namespace mesh::elaboration
