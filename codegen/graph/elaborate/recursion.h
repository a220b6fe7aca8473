// recursion.h: blocks are inlined, so none may reach itself. E0210.
#pragma once
#include <algorithm>

#include "codegen/graph/elaborate/context.h"

namespace mesh::elaboration {

/// Lives while a block is declared or inlined.
class Inlining {
 public:
  Inlining(Elaboration& e, const ast::Block& block, Span span) : e_(e) {
    const auto first =
        std::find_if(e.calls.begin(), e.calls.end(), [&](const auto& call) { return call.first == &block; });
    if (first != e.calls.end()) {
      legal = false;
      std::string cycle;
      for (auto at = first; at != e.calls.end(); ++at) cycle += at->first->name.text + " -> ";
      e.error("E0210", span, "block `{}` calls itself", block.name.text)
          .here("cycle: {}{}", cycle, block.name.text)
          .help("to stack copies, use `repeat layer { ... }`: programs are finite graphs");
    }
    e.calls.emplace_back(&block, span);
  }
  ~Inlining() { e_.calls.pop_back(); }
  Inlining(const Inlining&) = delete;
  Inlining& operator=(const Inlining&) = delete;

  bool legal = true;

 private:
  Elaboration& e_;
};

}  // namespace mesh::elaboration
