"""Call a library such as numpy once, or measure the mean time of many calls.

This script does not import dispatchflow. For a single call, the script writes the results to files, and prints the
types of a model's results as JSON. For timed calls, it prints the mean time in the JSON format of IREE's benchmark
tool."""

import argparse
import contextlib
import ctypes
import itertools
import json
import os
import runpy
import shutil
import sys
import tempfile
import time

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # malloc.h


def _arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--path", help="where Python finds the library")
    parser.add_argument("--library", required=True)
    parser.add_argument("--call", required=True, help="a Python file with a function main of the operands, or a model")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--input", action="append", default=[], help="float32:4x8:FILE")
    parser.add_argument("--output", action="append", help="one call, whose results are written to these files")
    parser.add_argument("--warmup", type=float, default=0.0, help="seconds")
    parser.add_argument("--length", default="0.1s", help="0.1s, or 100x for 100 calls")
    parser.add_argument("--sets", type=int, default=1, help="number of copies of the inputs, used in turn")
    return parser.parse_args()


class Calls:
    """The base class for libraries (numpy and torch) that are called through a Python file.

    The file has a function `main`, which calls the library and returns one result."""

    def function(self, path, operands):
        names = {}
        with open(path) as stream:
            exec(compile(stream.read(), path, "exec"), names)
        return names["main"]

    def contents(self, result):
        return [self.content(result)]


class Numpy(Calls):
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


class Torch(Calls):
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


class Onnxruntime:
    """The library onnxruntime, which runs a model file.

    The inputs and outputs of the model are bound to a session of onnxruntime before the first call."""

    def __init__(self, device, threads):
        import ml_dtypes  # noqa: F401 (registers the names of its types with numpy.dtype)
        import numpy
        import onnxruntime

        self.numpy, self.onnxruntime = numpy, onnxruntime
        onnxruntime.set_default_logger_severity(4)
        self.options = onnxruntime.SessionOptions()
        self.options.intra_op_num_threads, self.options.inter_op_num_threads = threads, 1
        self.options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        # The script that computes references also defines the names of types.
        self.names = runpy.run_path(os.path.join(os.path.dirname(__file__), "_onnxruntime.py"))

    def read(self, element, shape, content):
        return self.numpy.frombuffer(content, element).reshape(shape)

    def function(self, path, operands):
        with _gathered(path) as model:
            session = self.onnxruntime.InferenceSession(model, self.options, providers=["CPUExecutionProvider"])
        declared = session.get_inputs()
        if len(declared) != len(operands):
            raise ValueError(f"the model has {len(declared)} inputs; {len(operands)} are given")
        binding = session.io_binding()
        for each, operand in zip(declared, operands, strict=True):
            name = each.type.removeprefix("tensor(").removesuffix(")")
            own = operand.view(self.names["_TYPES"].get(name, name))  # MLIR's integers are signless: the model decides
            # The value shares the operand's memory, which the caller keeps.
            binding.bind_ortvalue_input(each.name, self.onnxruntime.OrtValue.ortvalue_from_numpy(own))
        for each in session.get_outputs():
            binding.bind_output(each.name)

        def call(*operands):
            session.run_with_iobinding(binding)
            return binding

        return call

    def contents(self, binding):
        results = binding.copy_outputs_to_cpu()
        print(json.dumps([self.names["_spelling"](result) for result in results]))
        return [result.tobytes() for result in results]

    def wait(self):
        pass


@contextlib.contextmanager
def _gathered(path):
    """Copy the model's folder to a temporary folder, and yield the path of the model in the copy.

    The copy contains no symbolic links, because onnxruntime refuses weights that are links to another folder."""
    folder, model = os.path.split(path)
    with tempfile.TemporaryDirectory(dir=".") as place:
        for parent, _, names in os.walk(folder):
            beside = os.path.join(place, os.path.relpath(parent, folder))
            os.makedirs(beside, exist_ok=True)
            for name in names:
                found, to = os.path.realpath(os.path.join(parent, name)), os.path.join(beside, name)
                try:
                    os.link(found, to)
                except OSError:  # another file system
                    shutil.copyfile(found, to)
        yield os.path.join(place, model)


def _inputs(library, words):
    for word in words:
        element, sizes, path = word.split(":", 2)
        with open(path, "rb") as stream:
            content = bytearray(stream.read())
        yield library.read(element, [int(size) for size in sizes.split("x") if size], content)


def _timed(function, sets, wait):
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


_LIBRARIES = {"numpy": Numpy, "torch": Torch, "onnxruntime": Onnxruntime}


def main():
    options = _arguments()
    # BLAS reads the number of threads only once, when the library is imported.
    for name in ("OMP", "OPENBLAS", "MKL", "BLIS", "VECLIB_MAXIMUM"):
        os.environ[f"{name}_NUM_THREADS"] = str(options.threads)
    if options.path and options.path not in sys.path:
        sys.path.append(options.path)
    library = _LIBRARIES[options.library](options.device, options.threads)
    operands = list(_inputs(library, options.input))
    function = library.function(options.call, operands)
    if options.output:
        contents = library.contents(function(*operands))
        if len(contents) != len(options.output):
            raise ValueError(f"{len(contents)} results; {len(options.output)} are expected")
        for path, content in zip(options.output, contents, strict=True):
            with open(path, "wb") as stream:
                stream.write(content)
        return
    ns, count = _block(function, library, operands, options)
    call = {"name": "main/real_time", "run_type": "iteration", "real_time": ns, "time_unit": "ns", "iterations": count}
    print(json.dumps({"benchmarks": [call]}))


if __name__ == "__main__":
    main()
