// recursion.h: blocks are inlined, so none may reach itself (E0210), nor too many be inside each other (E0119).
#pragma once
#include <algorithm>

#include "codegen/elaborate/context.h"

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
    if (legal && e.calls.size() >= deepest) {
      legal = false;
      e.error("E0119", span, "blocks call blocks more than {} deep", deepest)
          .help("to stack copies, use `repeat layer { ... }`");
    }
    e.calls.emplace_back(&block, span);
  }
  ~Inlining() { e_.calls.pop_back(); }
  Inlining(const Inlining&) = delete;
  Inlining& operator=(const Inlining&) = delete;

  bool legal = true;

 private:
  static constexpr size_t deepest = 100;
  Elaboration& e_;
};

}  // namespace mesh::elaboration
