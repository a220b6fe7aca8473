#!/usr/bin/env python3
"""Faults built into the perceptron of specs/mlp.mesh, and what cannot be one. Usage: mutate_test.py MESHC_MUTATE SPEC"""
import subprocess
import sys
import unittest

MESHC_MUTATE, SPEC = sys.argv[1:3]
SIZES = {"batch": 10, "pixel": 13, "hidden": 9, "class": 5}


class Mutate(unittest.TestCase):
    def verify(self, *arguments):
        return subprocess.run([MESHC_MUTATE, "verify", SPEC, *arguments, "--set", ",".join(f"{k}={v}" for k, v in SIZES.items())],
                              capture_output=True, text=True)

    def test_faults(self):
        done = self.verify("--layout", "data", "--mutate", "drop:1")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("mutation: left out all_reduce of", done.stdout)
        self.assertIn("DIFFERENT", done.stdout)
        done = self.verify("--layout", "data", "--mutate", "skip:1")
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("diverge at call", done.stderr)
        self.assertRegex(self.verify("--layout", "data", "--mutate", "list").stdout, r"drop [1-9]\d*\nskip [1-9]\d*\nswap \d+\n")
        for wrong in ("drop:100", "drop:0", "drop", "lose:1", "drop:1x"):
            self.assertEqual(self.verify("--layout", "data", "--mutate", wrong).returncode, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
