#!/usr/bin/env python3
"""Faults built into the perceptron of specs/mlp.mesh, what cannot be one, and what is none. Usage: mutate_test.py MESHC_MUTATE SPEC"""
import os
import subprocess
import sys
import unittest

MESHC_MUTATE, SPEC = sys.argv[1:3]
REORDERED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "reordered.mesh")
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

    def test_harmless(self):
        def verify(fault, seed):
            return subprocess.run([MESHC_MUTATE, "verify", REORDERED, "--steps", "2", "--mutate", fault, "--seed", seed], capture_output=True, text=True)

        for seed in "123":
            done = verify("shift:3", seed)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertRegex(done.stdout, r"mutation: read \w+ of b a row too late\nharmless: nothing but roundings differs in any rank's memory\n")
            done = verify("shift:1", seed)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertNotIn("harmless", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
