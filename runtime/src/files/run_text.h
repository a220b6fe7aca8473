// run_text.h: the texts that a run is configured by (the run file and the command line's overrides) and messages about
// places in them.
#pragma once
#include <string>
#include <vector>

#include "meshrt/failure.h"
#include "meshrt/run_file.h"

namespace meshrt {

class RunText {
 public:
  struct Text {
    std::string name;  ///< path of the run file, or "command line"
    std::string content;
    std::string folder;  ///< files named in this text are found relative to it
  };

  int add(Text text);
  const Text& text(int index) const { return texts_[index]; }

  /// "unknown key `stepz` in `train`
  ///   --> run.yaml:3:5
  ///  3 |   stepz: 10
  ///    |   ^^^^^ did you mean `steps`?"
  std::string render(Mark mark, const std::string& message, const std::string& label) const;

 private:
  std::vector<Text> texts_;
};

/// Collects the mistakes of a run file, so that all are told at once.
class RunErrors {
 public:
  explicit RunErrors(const RunText& text) : text_(text) {}
  void add(Mark mark, const std::string& message, const std::string& label = "");
  /// Whether something was said of this place already.
  bool told(Mark mark) const;
  /// Throws a Failure with every mistake in the order of the text, if there is any.
  void throw_if_any() const;

 private:
  struct Mistake {
    Mark mark;
    std::string message;
  };
  const RunText& text_;
  std::vector<Mistake> mistakes_;
};

}  // namespace meshrt
