"""Infer the operation of a sweep from its dims or shapes.

A sweep describes a set of cases. If a sweep uses another library's name of an operation, such as `gemm`, suggest
the operation that is meant."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from dispatchflow.errors import SpecError, suggestion
from dispatchflow.operations import OPERATIONS, OPTIONS
from dispatchflow.planning import sweep_words
from dispatchflow.planning.location import Location
from dispatchflow.planning.shapes import classes, classes_of

# Names in BLAS, ONNX, PyTorch and TensorFlow, separated by spaces → operation, and a value of its option `kind` if it
# has one. A name that is itself a value of `kind`, such as `relu`, needs no entry.
_FIELD = {
    "gemm mm dot linear dense fully_connected": "matmul",
    "bmm batch_gemm batched_gemm batched_matmul": "batch_matmul",
    "gemv mv": "matvec",
    "split_k splitk streamk": "matmul_splitk",
    "conv convolution": "conv2d",
    "depthwise depthwise_conv dwconv": "depthwise_conv2d",
    "qmatmul qgemm int8_matmul": "quantized_matmul",
    "qconv qconv2d qlinearconv": "quantized_conv2d",
    "pool maxpool maxpool2d max_pool max_pool2d": "pooling max",
    "avgpool avgpool2d avg_pool avg_pool2d sumpool sum_pool": "pooling sum",
    "sdpa mha flash_attention scaled_dot_product_attention self_attention": "attention",
    "layernorm layer_norm layer_normalization": "norm layer",
    "rmsnorm rms_norm": "norm rms",
    "reduce reduce_sum": "reduction sum",
    "reduce_max": "reduction max",
    "swish": "elementwise silu",
    "permute": "transpose",
    "mlp": "chain",
}

_NARROWING = ("dtype", "layout", *OPTIONS)

_SIZES = re.compile(r"\d+(?:x\d+)*")


def by_dims(dims: Collection[str], words: Mapping[str, str]) -> str:
    """Infer the operation of a sweep from the dims that the sweep gives.

    The operation must have all of `dims`, and all options that `words` names. For example, the dims m, n and k mean
    `matmul`.

    Raises:
        SpecError: no operation fits, or several fit equally well.
    """
    options = [word for word in words if word in OPTIONS]
    fitting = [name for name, operation in OPERATIONS.items() if set(dims) <= set(operation.dims)]
    having = _with_options(fitting, words)
    exact = _with_no_other_dims(dims, having)
    if len(found := exact or having) == 1:
        return found[0]
    given = {"given": ", ".join([*dims, *options])}
    if exact:
        hint = f"Say which: operation={exact[0]}."
        raise SpecError("several operations have these dims", {**given, "known": _with_dims(exact)}, hint)
    if having:
        facts = {**given, "known": _with_dims(having)}
        raise SpecError("no operation has just these dims", facts, "Give all dims of one of them.")
    if not fitting:
        facts = {**given, "known": _with_dims(OPERATIONS)}
        raise SpecError("no operation has these dims", facts, "Give all dims of one of them.")
    meant = (_with_no_other_dims(dims, fitting) or fitting)[0]
    word = next((word for word in options if word not in OPERATIONS[meant].options), options[0])
    facts = {**given, f"{word} have": _with_dims(name for name in OPERATIONS if word in OPERATIONS[name].options)}
    raise SpecError(
        f"{meant} has no word '{word}'", facts, f"Leave {word}= out, or give the dims of another operation."
    )


def by_shapes(written: str, words: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Infer the operations of a sweep from the shapes that the sweep gives.

    `written` has sizes such as `64x80`, or names of classes of shapes such as `tiny`. For `64x80` and the words
    `{"kind": "rms"}`, the result is `{"norm": {"shape": "64x80", "kind": "rms"}}`.

    Raises:
        SpecError: a class is unknown, no operation fits, or sizes such as `64x80` fit several operations.
    """
    narrowing = [f"{word}={value}" for word, value in words.items() if word in _NARROWING]
    named = dict.fromkeys(written.replace(",", " ").split())
    facts = {"given": ", ".join([*named, *narrowing])}
    fitting = _operations_with_words(words, facts)
    if sizes := next((word for word in named if _SIZES.fullmatch(word)), None):
        count = sizes.count("x") + 1
        having = [name for name in fitting if len(OPERATIONS[name].dims) == count]
        if len(having) == 1:
            return {having[0]: {"shape": written, **fitting[having[0]]}}
        several = "several operations have" if having else "no operation has"
        facts["known"] = _with_dims(having or fitting)
        hint = f"Say which: operation={_preferred(having)[0]}." if having else ""
        raise SpecError(f"{several} {count} dims, as {sizes} has", facts, hint)
    facts["classes"] = ", ".join(classes())
    for word in named or [""]:
        if word not in classes():
            raise SpecError(
                f"'{word}' is not a class of shapes", facts, suggestion(word, classes()) or "See docs/shapes.md."
            )
        if not set(classes()[word].shapes) & set(fitting):
            problem = f"no operation with {', '.join(narrowing)} has shapes '{word}'"
            raise SpecError(problem, facts, f"Operations with shapes '{word}': {', '.join(classes()[word].shapes)}.")
    found = {name: [word for word in named if word in classes_of(name)] for name in fitting}
    return {name: {"shape": ",".join(having), **fitting[name]} for name, having in found.items() if having}


def by_field(word: str, place: Location) -> str:
    """Return a hint that names the operation which another library calls `word`.

    For `layer_norm` on the command line, the hint is `Write operation=norm kind=layer.` For an unknown name, the hint
    is empty."""
    word = word.lower().replace("-", "_")
    found = [meaning.split() for names, meaning in _FIELD.items() if word in names.split()]
    for name, operation in OPERATIONS.items():
        found += [[name, word]] if "kind" in operation.options and word in operation.options["kind"].values else []
    # `operation` first, then `kind` if there is one.
    spelt = [" ".join(map(place.spelt, ("operation", "kind"), words)) for words in found]
    return f"Write {' or '.join(spelt)}." if spelt else ""


def _operations_with_words(words: Mapping[str, str], facts: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the types, layouts and option values in `words` that each operation accepts.

    For example, the result is `{"matmul": {"dtype": "f16;f32", "layout": "nt"}}`. An operation that accepts no value of
    one of the words is left out.

    Raises:
        SpecError: `words` has a value that no operation accepts.
    """
    written = {word: sweep_words.values(word, words[word]) for word in _NARROWING if word in words}
    for word, values in written.items():
        for value in values:
            if not any(sweep_words.takes(operation, word, value) for operation in OPERATIONS.values()):
                raise SpecError(
                    f"no operation has {word}={value}", facts, "See docs/operations.md for each one's values."
                )
    found = {
        name: {word: [v for v in values if sweep_words.takes(operation, word, v)] for word, values in written.items()}
        for name, operation in OPERATIONS.items()
    }
    return {
        name: {word: (";" if word == "dtype" else ",").join(values) for word, values in own.items()}
        for name, own in found.items()
        if all(own.values())
    }


def _with_options(names: Iterable[str], words: Mapping[str, str]) -> list[str]:
    """Return those operations in `names` that have all options in `words`.

    If some of these operations also accept all types, layouts and option values in `words`, only those are returned."""
    options = set(words) & set(OPTIONS)
    written = [(word, value) for word in _NARROWING if word in words for value in sweep_words.values(word, words[word])]
    having = [name for name in names if options <= set(OPERATIONS[name].options)]
    return [name for name in having if all(sweep_words.takes(OPERATIONS[name], *one) for one in written)] or having


def _with_no_other_dims(dims: Collection[str], names: Iterable[str]) -> list[str]:
    """Return the names of those operations in `names` that have no dims besides `dims`.

    Each operation in `names` must have all of `dims`. If preferred operations are among the results, the others
    are left out (see `_preferred`)."""
    return _preferred([name for name in names if len(OPERATIONS[name].dims) == len(dims)])


def _preferred(names: list[str]) -> list[str]:
    """Return the operations that are preferred if a sweep does not name its operation.

    For example, `["matmul", "quantized_matmul"]` becomes `["matmul"]`."""
    return [name for name in names if OPERATIONS[name].by_dims] or names


def _with_dims(names: Iterable[str]) -> str:
    return "; ".join(f"{name}: {', '.join(OPERATIONS[name].dims)}" for name in names)
