"""Runs one call of a provider's library; a script that imports this and the standard library only.

It makes a single call and writes the result as raw bytes, or runs a block: a warm-up, then calls for a given time or a
given number of calls. A block is printed in the format of the runtime's benchmark tool. The library is imported in this
separate process, after the number of threads is set: the BLAS of numpy and PyTorch reads that number only once."""

import argparse
import contextlib
import ctypes
import itertools
import json
import os
import sys
import time

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # malloc.h


def _arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--path", help="where Python finds the library")
    parser.add_argument("--library", required=True)
    parser.add_argument("--call", required=True, help="a Python file with a function main of the operands")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--input", action="append", default=[], help="float32:4x8:FILE")
    parser.add_argument("--output", help="one call, whose result is written to this file")
    parser.add_argument("--warmup", type=float, default=0.0, help="seconds")
    parser.add_argument("--length", default="0.1s", help="0.1s, or 100x for 100 calls")
    parser.add_argument("--sets", type=int, default=1, help="number of copies of the inputs, used in turn")
    return parser.parse_args()


class Numpy:
    def __init__(self, device, threads):
        import ml_dtypes  # noqa: F401 (registers the names of its types with numpy.dtype)
        import numpy

        self.numpy = numpy
        numpy.seterr(all="ignore")

    def read(self, element, shape, content):
        return self.numpy.frombuffer(content, element).reshape(shape)

    def copies(self, array, count):
        copies = self.numpy.empty((count, *array.shape), array.dtype)
        copies[...] = array
        return copies

    def content(self, result):
        return self.numpy.asarray(result).tobytes()

    def wait(self):
        pass


class Torch:
    def __init__(self, device, threads):
        import torch

        self.torch, self.device = torch, device
        torch.set_num_threads(threads)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False  # no TF32
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        torch.inference_mode().__enter__()
        self.wait = {"cuda": torch.cuda.synchronize, "mps": torch.mps.synchronize}.get(device, lambda: None)

    def read(self, element, shape, content):
        flat = self.torch.frombuffer(content, dtype=getattr(self.torch, element))
        return flat.reshape(shape).to(self.device)

    def copies(self, array, count):
        return array.expand(count, *array.shape).contiguous()

    def content(self, result):
        return result.cpu().contiguous().flatten().view(self.torch.uint8).numpy().tobytes()


def _inputs(library, words):
    for word in words:
        element, sizes, path = word.split(":", 2)
        with open(path, "rb") as stream:
            content = bytearray(stream.read())
        yield library.read(element, [int(size) for size in sizes.split("x") if size], content)


def _timed(function, sets, wait):
    """Return the seconds that these calls take; each call is complete before the next begins."""
    begin = time.perf_counter()
    for operands in sets:
        function(*operands)
        wait()
    return time.perf_counter() - begin


def _block(function, library, operands, options):
    if options.sets > 1:
        copies = [library.copies(operand, options.sets) for operand in operands]
        ring = ([copy[i] for copy in copies] for i in itertools.cycle(range(options.sets)))
    else:
        ring = itertools.repeat(operands)
    # Make the allocator keep freed memory, as IREE's runtime does.
    with contextlib.suppress(AttributeError):  # a C library without mallopt
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    calls, spent = 0, 0.0
    while calls == 0 or spent < options.warmup:
        spent += _timed(function, [next(ring)], library.wait)
        calls += 1
    if options.length.endswith("x"):
        count, wanted = int(options.length[:-1]), 0.0
    else:
        wanted = float(options.length[:-1])
        count = max(1, round(wanted * calls / spent))
    while True:
        took = _timed(function, list(itertools.islice(ring, count)), library.wait)
        if took >= wanted * 0.9:
            return took / count * 1e9, count
        count = max(count + 1, round(count * min(10.0, 1.1 * wanted / took)))


def main():
    options = _arguments()
    for name in ("OMP", "OPENBLAS", "MKL", "BLIS", "VECLIB_MAXIMUM"):
        os.environ[f"{name}_NUM_THREADS"] = str(options.threads)
    if options.path and options.path not in sys.path:
        sys.path.append(options.path)
    library = {"numpy": Numpy, "torch": Torch}[options.library](options.device, options.threads)
    names = {}
    with open(options.call) as stream:
        exec(compile(stream.read(), options.call, "exec"), names)
    operands = list(_inputs(library, options.input))
    if options.output:
        with open(options.output, "wb") as stream:
            stream.write(library.content(names["main"](*operands)))
        return
    ns, count = _block(names["main"], library, operands, options)
    call = {"name": "main/real_time", "run_type": "iteration", "real_time": ns, "time_unit": "ns", "iterations": count}
    print(json.dumps({"benchmarks": [call]}))


if __name__ == "__main__":
    main()
