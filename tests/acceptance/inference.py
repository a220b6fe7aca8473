"""What is done with a trained model: metrics over a set, values of every sample, both as training had them, as NumPy and as PyTorch's `eval()` has them."""
from common import Report
from inferred import course, evaluation, prediction, vision

# Each part is a function of (report, small).
PARTS = {"evaluation": evaluation.check, "its course": course.check, "prediction": prediction.check, "a vision Transformer": vision.check}


def run(small):
    report = Report()
    for name, check in PARTS.items():
        report.attempt(name, lambda check=check: check(report, small))
    return report
