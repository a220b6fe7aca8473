#include "driver/command_line.h"

#include "test_files.h"

namespace meshrt {
namespace {

CommandLine parse(std::vector<const char*> arguments) { return parse_command_line(arguments); }

TEST(CommandLine, TakesOptionsFilesAndOverrides) {
  const CommandLine line = parse({"-n", "4", "run.yaml", "train.steps=10", "--color=never", "data.token.file=x=y"});
  EXPECT_EQ(line.ranks, 4);
  EXPECT_EQ(line.run_file, "run.yaml");
  EXPECT_EQ(line.overrides, (std::vector<std::string>{"train.steps=10", "data.token.file=x=y"}));
  EXPECT_EQ(line.color, Color::never);
  EXPECT_EQ(parse({"out/a=b.yaml", "output.u.file=out/u.npy"}).run_file, "out/a=b.yaml");
  EXPECT_EQ(parse({"-n2"}).ranks, 2);
  EXPECT_EQ(parse({"-n=2"}).ranks, 2);
  EXPECT_TRUE(parse({"--info", "--json"}).json);
  EXPECT_TRUE(parse({"--dry-run", "--threads"}).threads);
  EXPECT_EQ(parse({"run.yaml"}).command, Command::train);
  const CommandLine evaluated =
      parse({"evaluate", "run.yaml", "--params=a", "--params", "b", "--names=n.yaml", "--json"});
  EXPECT_EQ(evaluated.command, Command::evaluate);
  EXPECT_EQ(evaluated.run_file, "run.yaml");
  EXPECT_EQ(evaluated.model.paths, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(words_for_ranks(evaluated),
            (std::vector<std::string>{"evaluate", "--params=a", "--params=b", "--names=n.yaml", "--json"}));
  const CommandLine generated = parse({"generate", "--prompt", "a b", "--top-k=5", "--greedy", "-f", "x", "-n", "2"});
  EXPECT_EQ(generated.generate.prompts, (std::vector<std::string>{"a b"}));
  EXPECT_EQ(generated.generate.file, "x");
  EXPECT_EQ(words_for_ranks(generated),
            (std::vector<std::string>{"generate", "--prompt=a b", "--top-k=5", "--greedy", "-f=x"}));
  const CommandLine scored = parse({"score", "--text", "a\tb", "-f", "x"});
  EXPECT_EQ(scored.command, Command::score);
  EXPECT_EQ(words_for_ranks(scored), (std::vector<std::string>{"score", "--text=a\tb", "-f=x"}));
  EXPECT_EQ(parse({"./evaluate"}).run_file, "./evaluate");
}

TEST(CommandLine, RefusesWhatItDoesNotKnow) {
  const struct {
    std::vector<const char*> arguments;
    const char* message;
  } cases[] = {
      {{"--thread"}, "unknown option `--thread`: did you mean `--threads`?\nsee --help"},
      {{"--x"},
       "unknown option `--x`: known options: --help, --info, --json, --dry-run, --threads, --color, --run-dir, "
       "--params, "
       "--fresh, --names, --out, -n, --threads-per-rank\nsee --help"},
      {{"-n"}, "-n needs a value\nsee --help"},
      {{"-n", "0"}, "-n must be a number of ranks, not `0`\nsee --help"},
      {{"-n", "two"}, "-n must be a number of ranks, not `two`\nsee --help"},
      {{"--color=blue"}, "--color must be auto, always or never, not `blue`\nsee --help"},
      {{"a.yaml", "b.yaml"}, "one run file is expected, but both `a.yaml` and `b.yaml` are given\nsee --help"},
      {{"--json"}, "--json goes with --info, evaluate, predict, generate and score\nsee --help"},
      {{"predict"}, "predict needs `--out DIR`: where do the values go?\nsee --help"},
      {{"evaluate", "--out", "o"}, "--out goes with predict\nsee --help"},
      {{"evaluate", "--prompt", "a"}, "--prompt goes with generate\nsee --help"},
      {{"generate", "--text=a"}, "--text goes with score\nsee --help"},
      {{"evaluate", "-f", "x"}, "-f goes with generate and score\nsee --help"},
      {{"generate", "--top-p", "2"}, "--top-p 2: a number from 1e-09 to 1 is expected"},
      {{"generate", "--top-p2"}, "unknown option `--top-p2`: did you mean `--top-p`?\nsee --help"},
      {{"evaluate", "--dry-run"}, "--dry-run and --run-dir are of training\nsee --help"},
      {{"--params", "ck"},
       "--params, --fresh and --names go with evaluate, predict, generate and score; a run that trains is given "
       "`train.params`\nsee "
       "--help"},
  };
  for (const auto& [arguments, message] : cases) {
    try {
      parse(arguments);
      ADD_FAILURE() << message;
    } catch (const Failure& failure) {
      EXPECT_EQ(std::string(failure.what()), message);
      EXPECT_EQ(exit_code(failure.cause), 2);
    }
  }
}

}  // namespace
}  // namespace meshrt
