"""Import a PyTorch module as an MLIR module; this script runs as a process of its own.

A function in the user's file returns the PyTorch module and example arguments. The script writes these files:
- the MLIR module as text, with the paths of PyTorch modules as locations
- the weights, if there are any
- the arguments and PyTorch's results, if numpy has their types
- facts about the import, or an error with its hint, as JSON"""

import argparse
import importlib.util
import json
import os
import re
import sys
import traceback

SCOPE = "model"  # the scope of the weights, which `parameters = ["model=net.irpa"]` in a spec names


class Refused(Exception):
    """The import failed."""

    def __init__(self, problem, hint="", wrong_input=False):
        super().__init__(problem)
        self.told = {"problem": problem, "hint": hint, "wrong_input": wrong_input}


def _arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("function")
    parser.add_argument("--module", required=True, help="the text to write")
    parser.add_argument("--weights", required=True, help="the .irpa to write")
    parser.add_argument("--arrays", required=True, help="the .npz to write")
    parser.add_argument("--facts", required=True, help="the JSON to write")
    return parser.parse_args()


def _packages():
    for package, name in (("torch", "torch"), ("iree.turbine", "iree-turbine")):
        try:
            missing = importlib.util.find_spec(package) is None
        except ModuleNotFoundError:
            missing = True
        if missing:
            raise Refused(f"{name} is not installed", "pip install 'dispatchflow[torch]'", True)


def _is_library(path):
    import iree.turbine
    import torch

    folders = [os.path.dirname(torch.__file__), os.path.dirname(os.path.dirname(iree.turbine.__path__[0]))]
    return path.startswith("<") or any(path.startswith(f"{folder}{os.sep}") for folder in folders)


def _last_line(error, file):
    told = [line for line in str(error).splitlines() if line.strip()]
    text = f"{type(error).__name__}: {' '.join(told[0].split())[:300]}" if told else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return text
    frames = traceback.extract_tb(error.__traceback__)
    frames = [(frame.filename, frame.lineno) for frame in frames if frame.filename != __file__]
    frames += [(path, int(line)) for path, line in re.findall(r'File "([^"]+)", line (\d+)', str(error))]
    own = [place for place in frames if place[0] == file] or [place for place in frames if not _is_library(place[0])]
    return f"{text} ({os.path.basename(own[-1][0])}, line {own[-1][1]})" if own else text


def _made(file, function):
    """Call the user's function; return (PyTorch module in evaluation mode, tuple of example arguments)."""
    import torch

    name = os.path.basename(file)
    sys.path.insert(0, os.path.dirname(file))  # as Python does for a script
    spec = importlib.util.spec_from_file_location(os.path.splitext(name)[0], file)
    user = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(user)
    except Exception as error:
        raise Refused(f"{name} cannot be loaded: {_last_line(error, file)}") from error
    make = getattr(user, function, None)
    if not callable(make):
        own = [key for key, value in vars(user).items() if getattr(value, "__module__", "") == spec.name]
        functions = [key for key in own if callable(vars(user)[key]) and not isinstance(vars(user)[key], type)]
        hint = f"Its functions are: {', '.join(functions) or 'none'}."
        raise Refused(f"{name} has no function '{function}'", hint, True)
    try:
        made = make()
    except Exception as error:
        raise Refused(f"{function}() failed: {_last_line(error, file)}") from error
    hint = f"{function}() returns (module, example arguments): a torch.nn.Module, and a tuple of tensors."
    if not (isinstance(made, tuple | list) and len(made) == 2):
        raise Refused(f"{function}() returned {_kind(made)}, not a pair", hint, True)
    module, arguments = made
    if not isinstance(module, torch.nn.Module):
        raise Refused(f"{function}() returned {_kind(module)}, where a torch.nn.Module must be", hint, True)
    arguments = (arguments,) if isinstance(arguments, torch.Tensor) else arguments
    if not isinstance(arguments, tuple | list):
        raise Refused(f"{function}() returned {_kind(arguments)}, where arguments must be", hint, True)
    return module.eval(), tuple(arguments)


def _kind(value):
    return "None" if value is None else f"a value of type {type(value).__name__}"


class Locations:
    """Gives each node of the exported graph an MLIR location such as `blocks.0.attn/linear`.

    Without this class, the locations would be torch's call stacks."""

    def __init__(self, file):
        self.file, self.names, self.counts, self.last = file, {}, {}, None

    def name(self, node):
        """Return the name of a graph node, such as `blocks.0.attn/linear`.

        The name is the path of the PyTorch module, then the operator. A second `linear` in `blocks.0.attn` ends in
        `_1`."""
        if node not in self.names:
            stack = node.meta.get("nn_module_stack") or {}
            path = next(reversed(stack.values()))[0] if stack else ""
            # The numbers in torch's names count through the complete model: equal modules would get different names.
            operator = re.sub(r"_\d+$", "", node.name) if node.op == "call_function" else node.name
            name = f"{path}/{operator}" if path else operator
            count = self.counts[name] = self.counts.get(name, -1) + 1
            self.names[node] = f"{name}_{count}" if count else name
        return self.names[node]

    def location(self, cache, node):
        from iree.compiler import ir

        self.last, context = node, cache._c
        places = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
        place = next(((path, int(line)) for path, line in reversed(places) if not _is_library(path)), None)
        inner = ir.Location.unknown(context=context)
        if place is not None:
            path = os.path.relpath(place[0], os.path.dirname(self.file))
            inner = ir.Location.file(path, place[1], 0, context=context)
        return ir.Location.name(self.name(node), inner, context=context)


def _exported(module, arguments, options):
    """Write a PyTorch module's MLIR text and weights to files; return (MLIR text, number of weights)."""
    import torch
    from iree.compiler.extras import fx_importer
    from iree.turbine import aot
    from iree.turbine.aot import decompositions

    name = os.path.basename(options.file)
    aot.externalize_module_parameters(module, external_scope=SCOPE)
    try:
        program = torch.export.export(module, args=arguments, strict=False)
        if wanted := decompositions.current_aot_decompositions():
            program = program.run_decompositions(wanted)
    except Exception as error:
        hint = "torch.export must trace the module; its results may not decide which operations run."
        raise Refused(f"torch.export cannot trace {name}: {_last_line(error, options.file)}", hint) from error
    locations = Locations(options.file)
    fx_importer.ContextCache.get_node_location = lambda cache, node: locations.location(cache, node)
    try:
        # The module's name is a symbol. With other characters, it would need quotes in each name that the compiler
        # derives from it.
        stem = re.sub(r"\W", "_", os.path.splitext(name)[0])
        text = aot.export(program, module_name=stem).mlir_module.get_asm(enable_debug_info=True)
    except Exception as error:
        node = locations.last
        at = f" at {locations.name(node)} ({node.target})" if node is not None else ""
        raise Refused(f"iree-turbine cannot import {name}{at}: {_last_line(error, options.file)}") from error
    with open(options.module, "w", encoding="utf-8") as stream:
        stream.write(text)
    if weights := len(module.state_dict()):
        aot.save_module_parameters(options.weights, module)
    return text, weights


def _arrays(module, arguments, options):
    """Write the arguments and PyTorch's results for these arguments to an .npz file.

    Returns the numbers of arguments and results, as a dict. If numpy does not have a tensor's type, no file is written,
    and the entry `no_arrays` says why."""
    import numpy
    import torch

    def tensors(values):
        return [each for each in torch.utils._pytree.tree_leaves(values) if isinstance(each, torch.Tensor)]

    inputs = [each.detach().clone() for each in tensors(arguments)]  # the module may write to them
    try:
        with torch.no_grad():
            results = tensors(module(*arguments))
    except Exception as error:
        raise Refused(f"the module fails: {_last_line(error, options.file)}") from error
    named = {f"in{i}": each for i, each in enumerate(inputs)} | {f"out{i}": each for i, each in enumerate(results)}
    lacking = None
    try:
        numpy.savez(options.arrays, **{name: each.detach().cpu().numpy() for name, each in named.items()})
    except (TypeError, RuntimeError):
        types = sorted({str(each.dtype).removeprefix("torch.") for each in named.values()})
        lacking = f"numpy has no array of one of these types: {', '.join(types)}"
    return {"inputs": len(inputs), "results": len(results), "no_arrays": lacking}


def main(options):
    _packages()
    module, arguments = _made(options.file, options.function)
    # The arrays come last, because computing them calls the module, and a call may change the module's buffers.
    text, weights = _exported(module, arguments, options)
    return {"weights": weights, "f64": "f64" in text or "torch.constant.float" in text} | _arrays(
        module, arguments, options
    )


if __name__ == "__main__":
    wanted = _arguments()
    try:
        told = main(wanted)
    except Refused as error:
        told = error.told
    with open(wanted.facts, "w", encoding="utf-8") as stream:
        json.dump(told, stream)
    sys.exit(1 if "problem" in told else 0)
