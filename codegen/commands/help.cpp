#include "codegen/commands/help.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <utility>

namespace mesh {

namespace {

/// Help made when it is asked for: the options are known by then.
class HelpFormatter : public CLI::FormatterBase {
 public:
  explicit HelpFormatter(std::function<std::string(const CLI::App*)> make) : make_(std::move(make)) {}
  std::string make_help(const CLI::App* app, std::string /*name*/, CLI::AppFormatMode /*mode*/) const override {
    return make_(app);
  }

 private:
  std::function<std::string(const CLI::App*)> make_;
};

std::string examples_text(const std::vector<Command::Example>& examples) {
  size_t width = 0;
  for (const Command::Example& example : examples) width = std::max(width, example.line.size());
  std::string text = "Examples:\n";
  for (const Command::Example& example : examples)
    text += fmt::format("  {:<{}}   {}\n", example.line, width, example.meaning);
  return text;
}

std::string option_names(const CLI::Option& option) {
  std::string text = option.get_name(false, true);  // "-W,--warn"
  for (size_t at = 0; (at = text.find(',', at)) != std::string::npos; at += 2) text.insert(at + 1, " ");
  return option.get_type_name().empty() ? text : text + " " + option.get_type_name();
}

std::string command_help(const CLI::App& app, const Command& command) {
  std::string text = fmt::format("meshc {}: {}\n\n{}", command.name, command.summary, examples_text(command.examples));
  text += fmt::format("\nUsage: meshc {} [OPTIONS]", command.name);
  std::string options;
  size_t width = 0;
  for (const CLI::Option* option : app.get_options())
    if (!option->get_positional()) width = std::max(width, option_names(*option).size());
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) text += " " + option->get_type_name();
    else options += fmt::format("  {:<{}}   {}\n", option_names(*option), width, option->get_description());
  }
  if (!command.details.empty()) text += "\n\n" + command.details;
  return text + "\n\nOptions:\n" + options;
}

}  // namespace

void set_main_help(CLI::App& app, const std::vector<Command>& commands) {
  std::string list;
  for (const Command& command : commands) list += fmt::format("  {:<10} {}\n", command.name, command.summary);
  std::string text =
      "meshc: from a .mesh spec to a C++ program that trains it over many ranks\n\n" +
      examples_text({{"meshc run gpt.mesh --mesh data=2", "train on two local ranks"},
                     {"meshc build gpt.mesh -o gpt", "write the C++ program to ./gpt and compile it"},
                     {"meshc check gpt.mesh", "say what is wrong with a spec"},
                     {"meshc explain E0301", "what an error means, and what cures it"}}) +
      "\nUsage: meshc COMMAND [OPTIONS]\n\nCommands:\n" + list +
      "\n`meshc COMMAND --help` shows the options of one.\n"
      "Exit codes: 0 success, 1 mistakes in the input, 2 wrong usage, 3 the environment or the run failed,\n"
      "70 an internal error, 130 interrupted.\n";
  app.formatter(std::make_shared<HelpFormatter>([text = std::move(text)](const CLI::App*) { return text; }));
}

void set_command_help(CLI::App& app, const Command& command) {
  app.formatter(
      std::make_shared<HelpFormatter>([command](const CLI::App* self) { return command_help(*self, command); }));
}

}  // namespace mesh
