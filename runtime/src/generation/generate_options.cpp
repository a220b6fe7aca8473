// The options of `generate` and `score`, of programs and of meshc.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>

#include "meshrt/failure.h"
#include "meshrt/generation.h"
#include "meshrt/tokenizer.h"
#include "system/tell.h"
#include "system/text_file.h"

namespace meshrt {

namespace {

[[noreturn]] void refuse(const std::string& what) { throw Failure(Cause::usage, what); }

/// The whole text as a number from `least` to `most`.
template <class T>
T number(const char* option, const std::string& text, T least, T most) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least && value <= most))
    refuse(fmt::format("{} {}: a number from {} to {} is expected", option, text, least, most));
  return value;
}

constexpr int64_t many = int64_t{1} << 31;

constexpr GenerateOption of_generate[] = {
    {"--prompt", "TEXT", "a text to go on from; several give several", true,
     [](GenerateRequest& to, const std::string& value) { to.prompts.push_back(value); }},
    {"-f", "FILE", "a file with a prompt on each line", false,
     [](GenerateRequest& to, const std::string& value) { to.file = value; }},
    {"--tokens", "N", "how many to write (default: as many as the model has positions)", false,
     [](GenerateRequest& to, const std::string& value) { to.tokens = number("--tokens", value, int64_t{1}, many); }},
    {"--greedy", "", "always the likeliest", false, [](GenerateRequest& to, const std::string&) { to.greedy = true; }},
    {"--beams", "B", "search for the likeliest text, by the B likeliest beginnings at each position", false,
     [](GenerateRequest& to, const std::string& value) { to.beams = number("--beams", value, int64_t{1}, many); }},
    {"--length-penalty", "A", "beams are compared by log-likelihood / length^A (default 1)", false,
     [](GenerateRequest& to, const std::string& value) {
       to.length_penalty = number("--length-penalty", value, 0.0, 100.0);
     }},
    {"--begin", "TEXT", "of an encoder-decoder: how what it writes begins", false,
     [](GenerateRequest& to, const std::string& value) { to.begin = value; }},
    {"--temperature", "T", "above 1 more freely, below less (default 1)", false,
     [](GenerateRequest& to, const std::string& value) {
       to.sampling.temperature = number("--temperature", value, 1e-6, 1e6);
     }},
    {"--top-k", "K", "only the K likeliest", false,
     [](GenerateRequest& to, const std::string& value) {
       to.sampling.top_k = number("--top-k", value, int64_t{1}, many);
     }},
    {"--top-p", "P", "only the likeliest that have this share together", false,
     [](GenerateRequest& to, const std::string& value) { to.sampling.top_p = number("--top-p", value, 1e-9, 1.0); }},
    {"--min-p", "P", "only what has this part of the likeliest one's share", false,
     [](GenerateRequest& to, const std::string& value) { to.sampling.min_p = number("--min-p", value, 0.0, 1.0); }},
    {"--seed", "N", "of the random numbers (default 1)", false,
     [](GenerateRequest& to, const std::string& value) {
       to.sampling.seed = number("--seed", value, uint64_t{0}, ~uint64_t{0});
     }},
    {"--repetition", "R", "above 1: what has been written already becomes less likely (default 1)", false,
     [](GenerateRequest& to, const std::string& value) {
       to.sampling.repetition = number("--repetition", value, 1e-3, 1e3);
     }},
    {"--stop", "TEXT", "ends a text that ends so; several may be given", true,
     [](GenerateRequest& to, const std::string& value) { to.stops.push_back(value); }},
};

constexpr GenerateOption of_score[] = {
    {"--text", "TEXT", "a text; up to a tab it is given, and not scored. Several give several", true,
     [](GenerateRequest& to, const std::string& value) { to.prompts.push_back(value); }},
    {"-f", "FILE", "a file with a text on each line", false,
     [](GenerateRequest& to, const std::string& value) { to.file = value; }},
};

/// The lines of its file; none without one. Every rank reads it.
std::vector<std::string> file_lines(const GenerateRequest& request) {
  std::vector<std::string> lines;
  if (request.file.empty()) return lines;
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(request.file, error);
  if (!std::filesystem::exists(status))
    throw Failure(Cause::data, fmt::format("-f: cannot read `{}`: {}", request.file, error.message()));
  if (!std::filesystem::is_regular_file(status))
    throw Failure(Cause::data, fmt::format("-f: `{}` is no regular file, which each rank could read", request.file));
  for_each_line(read_text(request.file), [&](std::string_view line) { lines.emplace_back(line); });
  return lines;
}

TextToScore text_to_score(const std::string& line, std::string place) {
  const size_t tab = line.find('\t');
  TextToScore one = tab == std::string::npos ? TextToScore{"", line, std::move(place)}
                                             : TextToScore{line.substr(0, tab), line.substr(tab + 1), std::move(place)};
  if (one.text.empty())
    refuse(fmt::format("{}: nothing to score{}", one.place, tab == std::string::npos ? "" : " behind the tab"));
  return one;
}

}  // namespace

std::span<const GenerateOption> generate_options() { return of_generate; }
std::span<const GenerateOption> score_options() { return of_score; }

void set_option(GenerateRequest& request, const GenerateOption& option, const std::string& value) {
  option.set(request, value);
  request.given.push_back(*option.type == '\0' ? option.name : fmt::format("{}={}", option.name, value));
}

void ask_for_prompt(GenerateRequest& request) {
  if (!request.prompts.empty() || !request.file.empty() || isatty(STDIN_FILENO) == 0) return;
  tell("prompt: ");
  std::string line;
  if (std::getline(std::cin, line) && !line.empty()) set_option(request, of_generate[0], line);
}

std::vector<Prompt> prompts_of(const GenerateRequest& request) {
  const auto given = [&](const char* name) {
    return std::ranges::any_of(request.given, [&](const std::string& word) { return word.starts_with(name); });
  };
  for (const char* free : {"--temperature", "--top-k", "--top-p", "--min-p", "--seed"})
    if (request.greedy && given(free)) refuse(fmt::format("--greedy excludes {}: the likeliest is no choice", free));
  for (const char* other : {"--greedy", "--temperature", "--top-k", "--top-p", "--min-p", "--seed", "--repetition"})
    if (request.beams > 0 && given(other))
      refuse(fmt::format("--beams excludes {}: beams are compared by what the model says alone", other));
  if (request.beams == 0 && given("--length-penalty")) refuse("--length-penalty compares beams: give `--beams B`");
  if (std::ranges::count(request.stops, "") > 0) refuse("--stop takes a text: every text ends with an empty one");
  std::vector<Prompt> prompts;
  for (const std::string& text : request.prompts)
    prompts.push_back({text, request.prompts.size() == 1 ? "" : fmt::format("--prompt {}", prompts.size() + 1)});
  size_t number = 0;
  for (std::string& line : file_lines(request))
    prompts.push_back({std::move(line), fmt::format("{}:{}", request.file, ++number)});
  if (prompts.empty()) refuse("nothing to go on from: `--prompt TEXT`, or `-f FILE` with a prompt on each line");
  return prompts;
}

std::vector<TextToScore> texts_of(const GenerateRequest& request) {
  std::vector<TextToScore> texts;
  for (const std::string& text : request.prompts)
    texts.push_back(text_to_score(text, fmt::format("--text {}", texts.size() + 1)));
  size_t line = 0;
  for (const std::string& text : file_lines(request))
    texts.push_back(text_to_score(text, fmt::format("{}:{}", request.file, ++line)));
  if (texts.empty()) refuse("nothing to score: `--text TEXT`, or `-f FILE` with a text on each line");
  return texts;
}

}  // namespace meshrt
