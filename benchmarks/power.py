"""List operations for which verification would miss an error: `python -m benchmarks.power [NAME …]`.

An error is missed if no recipe (a way to make inputs) of the operation detects it; `verification.power` defines
the errors. Each operation is tried with all its types, with options such as `epilogue`, and with three shapes: a
small one, and two that occur in neural networks."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from dispatchflow.operations import OPERATIONS, Operation
from dispatchflow.reports.table import markdown
from dispatchflow.verification import power

SIZES: dict[str, tuple[tuple[int, ...], ...]] = {
    "attention": ((1, 24, 24, 64, 1000), (8, 512, 128, 128, 4096), (1, 1, 128, 128, 16384)),
    "batch_matmul": ((2, 9, 14, 300), (8, 128, 128, 4096), (32, 1, 128, 4096)),
    "chain": ((13, 200, 17, 700), (128, 128, 1024, 2048), (1, 512, 1024, 1024)),
    "conv2d": ((1, 9, 9, 16, 10, 3, 3), (1, 56, 56, 256, 256, 3, 3), (1, 7, 7, 512, 512, 1, 1)),
    "depthwise_conv2d": ((1, 12, 12, 24, 3, 3), (1, 112, 112, 96, 3, 3), (1, 7, 7, 960, 5, 5)),
    "elementwise": ((40, 60), (2048, 2048), (1, 4096)),
    "matmul": ((13, 17, 300), (512, 512, 65536), (1, 4096, 4096)),
    "matmul_splitk": ((13, 17, 512), (128, 128, 65536), (16, 4096, 4096)),
    "matvec": ((40, 300), (4096, 4096), (4096, 16384)),
    "norm": ((24, 300), (512, 16384), (1, 4096)),
    "pooling": ((1, 12, 12, 24, 3, 3), (1, 112, 112, 64, 3, 3), (1, 7, 7, 2048, 7, 7)),
    "quantized_conv2d": ((1, 9, 9, 16, 10, 3, 3), (1, 56, 56, 128, 128, 3, 3), (1, 7, 7, 512, 512, 1, 1)),
    "quantized_matmul": ((13, 17, 300), (512, 512, 16384), (1, 4096, 4096)),
    "reduction": ((24, 300), (512, 65536), (1, 65536)),
    "scaled_matmul": ((13, 17, 320), (512, 512, 16384), (1, 4096, 4096)),
    "softmax": ((24, 300), (512, 50257), (1, 32000)),
    "transpose": ((40, 60), (2048, 2048), (1, 4096)),
    "vecmat": ((40, 300), (4096, 4096), (4096, 65536)),
}
_WORDS = ("epilogue", "kind", "axis", "mask", "causal", "accumulate")


def operations(name: str, sizes: tuple[int, ...]) -> Iterator[Operation]:
    cls = OPERATIONS[name]
    choices: list[dict[str, str]] = [{}]
    for word in _WORDS:
        if word in cls.options:
            option = cls.options[word]
            choices += [{word: str(value)} for value in option.values if value != option.default]
    if {"mask", "causal"} <= set(cls.options):
        choices.append({"mask": "yes", "causal": "yes"})
    for types in cls.signatures:
        for chosen in choices:
            operation = cls.make(sizes, types, None, **chosen)
            if operation.illegal("llvm-cpu") is None:
                yield operation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(OPERATIONS), metavar="NAME")
    rows, asked = [], 0
    for name in parser.parse_args().names:
        for sizes in SIZES[name]:
            for operation in operations(name, sizes):
                asked += 1
                if unseen := power.unseen(operation):
                    rows.append({"shape": f"`{operation.shape_name}`", "would not see": "; ".join(unseen)})
    print(markdown(["shape", "would not see"], rows))
    print(f"{asked} asked, {len(rows)} of them would overlook something")


if __name__ == "__main__":
    main()
