#include <fmt/format.h>

#include <algorithm>

#include "codegen/program/accesses.h"
#include "codegen/program/overlap.h"
#include "codegen/program/print_program.h"
#include "codegen/program/walk.h"

namespace mesh {

namespace {

using Phase = CollectiveStep::Phase;

class CallVerifier {
 public:
  explicit CallVerifier(const Program& program) : program_(program) {}
  std::vector<std::string> messages;

  void list(std::span<const Step> steps) {
    std::vector<const Step*> started;
    for (const Step& step : steps) {
      const auto moved = movements(step);
      if (!moved.empty() && moved.front().phase == Phase::wait) {
        const auto own = std::ranges::find_if(started, [&](const Step* call) { return same(movements(*call), moved); });
        if (own != started.end()) started.erase(own);
        else say("{} waits for what was not started", step);
        continue;
      }
      for (const Step* call : started)
        if (const BufferId both = common_memory(program_, *call, step))
          messages.push_back(fmt::format("{} touches {} while this is under way: {}", summary(program_, step),
                                         program_.buffer(both).name, summary(program_, *call)));
      if (!moved.empty() && moved.front().phase == Phase::start) started.push_back(&step);
      for (const Steps* body : bodies(step)) list(*body);
    }
    for (const Step* call : started) say("{} is never waited for", *call);
  }

 private:
  void say(fmt::format_string<std::string> what, const Step& step) {
    messages.push_back(fmt::format(what, summary(program_, step)));
  }

  static bool same(std::span<const CollectiveStep> a, std::span<const CollectiveStep> b) {
    return std::ranges::equal(a, b, [](const CollectiveStep& one, const CollectiveStep& other) {
      return one.step == other.step && one.from == other.from && one.to == other.to;
    });
  }

  const Program& program_;
};

}  // namespace

std::vector<std::string> verify_calls(const Program& program, std::span<const Step> steps) {
  CallVerifier verifier(program);
  verifier.list(steps);
  return std::move(verifier.messages);
}

}  // namespace mesh
