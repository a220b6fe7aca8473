#include "report/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "meshrt/collectives.h"
#include "report/gather.h"
#include "system/host_name.h"
#include "system/text_file.h"

namespace meshrt {

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr int work_track = 0, waiting_track = 1, stages_track = 2;
// Less is the cost of a call, not a nest.
constexpr auto shortest_nest = std::chrono::microseconds(2);

double microseconds(Clock::time_point time) {
  return std::chrono::duration<double, std::micro>(time.time_since_epoch()).count();
}

/// Events of one rank as JSON objects, joined by commas.
class Writer {
 public:
  Writer(int rank, const ProgramInfo& info, double clock_ahead) : rank_(rank), info_(info), clock_ahead_(clock_ahead) {}

  /// Of which `stages` is there only where actions of a pipeline are.
  void name_tracks(bool stages) {
    const auto name = [&](const char* what, int track, const std::string& text) {
      add({{"name", what}, {"ph", "M"}, {"pid", rank_}, {"tid", track}, {"args", {{"name", text}}}});
    };
    name("process_name", work_track, fmt::format("rank {} on {}", rank_, host_name()));
    name("thread_name", work_track, "work");
    name("thread_name", waiting_track, "waiting");
    if (stages) name("thread_name", stages_track, "stages");
  }

  void add_step(int64_t number, std::vector<TraceEvent> events) {
    std::ranges::sort(events, {}, &TraceEvent::start);
    Clock::time_point done{};  // of the work so far
    const TraceEvent* call = nullptr;
    for (const TraceEvent& event : events) {
      if (event.part == &StepProfile::step) {
        add_event(fmt::format("step {}", number), "step", event, Json::object());
        done = event.start;
      } else if (event.part == &StepProfile::waiting) {
        const bool inside = call && event.end <= call->end;
        add_event(inside ? "waiting in " + call->label.name : "waiting", "waiting", event,
                  inside ? place_of(*call) : Json::object());
      } else if (event.part == &StepProfile::actions) {
        add_event(event.label.name, "stage", event, Json::object());
      } else if (event.part != &StepProfile::collectives) {
        add_nest(done, event.start);
        done = std::max(done, event.end);
        const bool is_call = event.part == &StepProfile::calls;
        if (is_call) call = &event;
        add_event(event.label.name,
                  is_call                                ? "collective"
                  : event.part == &StepProfile::products ? "product"
                                                         : "attention",
                  event, place_of(event));
      }
    }
    if (!events.empty()) add_nest(done, events.front().end);  // the step itself begins first
  }

  std::string text;

 private:
  void add_nest(Clock::time_point start, Clock::time_point end) {
    if (end - start < shortest_nest) return;
    add_event("nests", "nest", {nullptr, start, end, {}}, Json::object());
  }

  /// Line and text of the spec, and bytes, where they are known.
  Json place_of(const TraceEvent& event) const {
    Json place = Json::object();
    if (const int site = event.label.site; site >= 0 && site < static_cast<int>(info_.sites.size())) {
      const ProgramInfo::SourceSpan& span = info_.sites[site];
      if (span.line > 0) place["spec"] = fmt::format("{}:{}", span.file, span.line);
      if (!span.text.empty()) place["text"] = span.text;
    }
    if (event.label.bytes > 0) place["bytes"] = event.label.bytes;
    return place;
  }

  void add_event(const std::string& name, const char* category, const TraceEvent& event, Json arguments) {
    const double start = microseconds(event.start) - clock_ahead_;
    add({{"name", name},
         {"cat", category},
         {"ph", "X"},
         {"pid", rank_},
         {"tid", event.part == &StepProfile::waiting   ? waiting_track
                 : event.part == &StepProfile::actions ? stages_track
                                                       : work_track},
         {"ts", start},
         {"dur", microseconds(event.end) - clock_ahead_ - start},
         {"args", std::move(arguments)}});
  }
  void add(const Json& event) {
    text += (text.empty() ? "" : ",\n") + event.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  int rank_;
  const ProgramInfo& info_;
  double clock_ahead_;  // microseconds
};

}  // namespace

Trace::Trace(Rank& rank, const ProgramInfo& info, const StepRange& range, std::string path)
    : rank_(rank), info_(info), range_(range), path_(std::move(path)) {}

std::vector<TraceEvent>* Trace::events_of(int64_t step) {
  if (step < range_.first || step > range_.last) return nullptr;
  return &steps_.emplace_back(Step{step, {}}).events;
}

bool Trace::after(int64_t step) { return step == range_.last && finish(); }

bool Trace::finish() {
  if (steps_.empty()) return false;
  // Ranks of a host have one clock. Those of other hosts are set by rank 0's, as they leave a barrier together.
  barrier(rank_, world(rank_), {-1, "trace"});
  const double now = microseconds(Clock::now());
  const std::vector<std::string> hosts = gather_texts(rank_, "trace", host_name());
  const std::vector<std::string> clocks = gather_texts(rank_, "trace", fmt::format("{}", now));
  const double ahead = hosts[rank_.rank()] == hosts[0] ? 0 : now - std::stod(clocks[0]);
  const std::vector<std::string> all = gather_texts(rank_, "trace", own_events(ahead));
  steps_.clear();
  return rank_.rank() == 0 &&
         offer_text(path_,
                    fmt::format("{{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n{}\n]}}\n", fmt::join(all, ",\n")));
}

std::string Trace::own_events(double clock_ahead) const {
  Writer writer(rank_.rank(), info_, clock_ahead);
  writer.name_tracks(std::ranges::any_of(steps_, [](const Step& step) {
    return std::ranges::find(step.events, &StepProfile::actions, &TraceEvent::part) != step.events.end();
  }));
  for (const Step& step : steps_) writer.add_step(step.number, step.events);
  return writer.text;
}

}  // namespace meshrt
