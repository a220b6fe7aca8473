#include "codegen/schedule/schedule_csv.h"

#include <algorithm>

namespace mesh {

namespace {

// A list has a few actions a micro-batch and stage. Larger numbers are mistakes, and tables of them would fill memory.
constexpr int32_t most_stages = 100'000, most_micro_batches = 1'000'000;

class CsvReader {
 public:
  CsvReader(FileId file, const SourceMap& sources, DiagnosticSink& sink)
      : file_(file), text_(sources.text(file)), sink_(sink), has_bw_(text_.find("BW") != std::string_view::npos) {}

  std::optional<ReadSchedule> read() {
    for (uint32_t at = 0; at < text_.size();) {
      auto end = static_cast<uint32_t>(std::min(text_.find('\n', at), text_.size()));
      line(at, end);
      at = end + 1;
    }
    if (result_.schedule.ranks.empty())
      sink_.error("E0701", {file_, 0, 0}, "the file has no actions")
          .help("a line a rank, a cell an action: `0F0,0F1,0B0,0B1`");
    if (sink_.has_errors()) return std::nullopt;
    return std::move(result_);
  }

 private:
  void line(uint32_t begin, uint32_t end) {
    if (std::ranges::all_of(text_.substr(begin, end - begin), [](char c) { return c == '\r' || c == ' '; })) return;
    result_.schedule.ranks.emplace_back();
    result_.places.emplace_back();
    result_.lines.push_back({file_, begin, end});
    for (uint32_t at = begin; at <= end;) {
      const auto comma = static_cast<uint32_t>(std::min<size_t>(text_.find(',', at), end));
      cell(at, comma);
      at = comma + 1;
    }
  }

  void cell(uint32_t begin, uint32_t end) {
    const auto is_blank = [&](uint32_t at) { return text_[at] == ' ' || text_[at] == '\r' || text_[at] == '"'; };
    while (begin < end && is_blank(begin)) ++begin;
    while (begin < end && is_blank(end - 1)) --end;
    const std::string_view text = text_.substr(begin, end - begin);
    constexpr std::string_view overlapped = ")OVERLAP_F_B";
    const size_t middle = text.find(';');
    if (!text.starts_with("(") || !text.ends_with(overlapped) || middle == std::string_view::npos)
      return action(begin, end);
    action(begin + 1, begin + static_cast<uint32_t>(middle));
    action(begin + static_cast<uint32_t>(middle) + 1, end - static_cast<uint32_t>(overlapped.size()));
  }

  void action(uint32_t begin, uint32_t end) {
    const Span place{file_, begin, end};
    std::string text(text_.substr(begin, end - begin));
    if (has_bw_) text = in_new_words(std::move(text));
    const std::optional<Action> action = parse_action(text);
    if (!action) {
      sink_.error("E0701", place, "`{}` is no action of a schedule", text_.substr(begin, end - begin))
          .here("not STAGE KIND MICRO-BATCH")
          .help(
              "kinds are F, R, B, I, W, SEND_F, RECV_F, SEND_B, RECV_B, as in `0F1`, and UNSHARD, RESHARD, "
              "REDUCE_GRAD, as in `0UNSHARD`; an empty cell waits");
      return;
    }
    if (action->stage >= most_stages || action->micro_batch >= most_micro_batches) {
      sink_.error("E0701", place, "`{}` has a larger number than schedules have", text)
          .help("stages are below {}, micro-batches below {}", most_stages, most_micro_batches);
      return;
    }
    PipelineSchedule& schedule = result_.schedule;
    schedule.stages = std::max(schedule.stages, action->stage + 1);
    schedule.micro_batches = std::max(schedule.micro_batches, action->micro_batch + 1);
    schedule.ranks.back().push_back(*action);
    result_.places.back().push_back(place);
  }

  /// Of a file with BW: "0BW1" is "0B1", "0B1" is "0I1".
  static std::string in_new_words(std::string text) {
    const size_t at = text.find_first_not_of("0123456789");
    if (at == std::string::npos || text[at] != 'B') return text;
    if (text.substr(at, 2) == "BW") return text.erase(at + 1, 1);
    text[at] = 'I';
    return text;
  }

  const FileId file_;
  const std::string_view text_;
  DiagnosticSink& sink_;
  const bool has_bw_;
  ReadSchedule result_;
};

}  // namespace

std::optional<ReadSchedule> read_schedule(FileId file, const SourceMap& sources, DiagnosticSink& sink) {
  return CsvReader(file, sources, sink).read();
}

std::string to_csv(const PipelineSchedule& schedule) {
  std::string text;
  for (const std::vector<Action>& actions : schedule.ranks) {
    for (size_t at = 0; at < actions.size(); ++at) text += (at == 0 ? "" : ",") + to_text(actions[at]);
    text += "\n";
  }
  return text;
}

}  // namespace mesh
