"""Find the public functions of an MLIR module in the module's text.

If a user wrote the text, the names that are found are a guess. If the compiler printed the text, the names and types
are certain."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dispatchflow.mlir.attributes import closing, split, unescaped

BUFFER_VIEW = "!hal.buffer_view"
"""The type of a tensor whose sizes and element type are known only at run time."""

ASYNC = "$async"
"""The suffix of the functions that the compiler adds when a module is imported from ONNX or PyTorch.

`main$async` contains the user's code; `main` calls it and waits for the results."""

# A symbol's name after `@`: `main`, `"a b"`, `"a\22b"`.
_SYMBOL = r"\"(?:[^\"\\]|\\.)+\"|[\w.$-]+"
# A public function as the compiler prints it, on one line. Only functions of the outermost module match: a function of
# a nested module has other callers (for example, the code of a custom dispatch).
_FUNCTION = re.compile(rf"^  (?:func|util)\.func\s+(?:public\s+)?@({_SYMBOL})\s*\(", re.MULTILINE)
# A function as a user writes it, possibly after other text or in generic form. Comments and strings are matched too,
# because they may contain braces and names. Every branch begins with a literal character: other text is skipped fast.
_WRITTEN = re.compile(
    r"//[^\n]*"
    r"|\"(?:func|util)\.func\"\s*\(\s*\)\s*<\{(?P<properties>.*?)\}>\s*\((?=\{)"
    rf"|\.func(?<=func\.func|util\.func)\s+(?:(?P<visibility>private|public|nested)\s+)?@(?P<name>{_SYMBOL})"
    r"|\"[^\"\\]*(?:\\.[^\"\\]*)*\"|\{|\}",
    re.DOTALL,
)
_PROPERTY = re.compile(r"sym_(name|visibility)\s*=\s*\"((?:[^\"\\]|\\.)+)\"")
# The arguments and results of a function in whose own type the compiler has replaced tensors by buffers.
_BOUND = re.compile(r"iree\.abi\.declaration = \"sync func @(?:[^\"\\(]|\\.)+(\((?:[^\"\\]|\\.)*)\"")
_ARROW = re.compile(r"\s*->\s*")
_RESULT = re.compile(r"^\s*%\w+: ")
_AFTER = re.compile(r"\s+(?:attributes\s*)?\{|\s+loc\(|\n")
_TENSOR = re.compile(r"tensor<((?:(?:\d+|\?)x)*)(\w+)(?:,.*)?>")
_F64 = re.compile(r"(?:\b|(?<=x))f64\b")
_TORCH = re.compile(r"!torch\.v?tensor<\[([\d,?]*)\],\s*(\w+)>")


@dataclass(frozen=True, slots=True)
class Declaration:
    """The types of a function's inputs and results, as the runtime's tools spell them.

    Examples are `4x8xf32`, `?x8xf32` and `i32`."""

    inputs: tuple[str, ...]
    results: tuple[str, ...]

    @property
    def types(self) -> tuple[str, ...]:
        return self.inputs + self.results

    @property
    def demoted(self) -> Declaration:
        """The declaration after the compiler has demoted f64 to f32, also in types such as `complex<f64>`."""
        inputs, results = (tuple(_F64.sub("f32", type) for type in types) for types in (self.inputs, self.results))
        return Declaration(inputs, results)


def functions(text: str) -> list[str]:
    """Guess the names of the outermost public functions from the text of a module that a user wrote.

    The names are in the order of the text. `declarations` finds the names with certainty, but needs a text that the
    compiler printed."""
    depth, found = 0, list[tuple[int, str]]()
    for match in _WRITTEN.finditer(text):
        if match[0] in "{}":
            depth += 1 if match[0] == "{" else -1
        elif match["properties"]:
            said = dict(_PROPERTY.findall(match["properties"]))
            if "name" in said and said.get("visibility", "public") == "public":
                found.append((depth, unescaped(said["name"])))
        elif match["name"] and match["visibility"] in (None, "public"):
            found.append((depth, _symbol(match["name"])))
    outermost = min((depth for depth, _ in found), default=0)
    return list(dict.fromkeys(name for depth, name in found if depth == outermost))


def is_bytecode(content: bytes) -> bool:
    return content.startswith(b"ML\xefR")


def foreign_format(content: bytes) -> str | None:
    """Return why `content` cannot be MLIR, such as "is empty". Return None if it may be MLIR."""
    if not content.strip():
        return "is empty"
    if is_bytecode(content):
        return None
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "is UTF-16; MLIR is UTF-8"
    if content.startswith(b"PK\x03\x04"):
        return "is a zip archive (a compiled module or a PyTorch file?), not MLIR"
    return "is binary data, neither MLIR text nor MLIR bytecode" if b"\0" in content else None


_STORE = re.compile(rf"\b(?:util\.global\.store|ml_program\.global_store(?:_graph)?)\b[^@\n]*@({_SYMBOL})")
# A write through a pointer names no global; every global whose address the module takes may be written.
_INDIRECT = "util.global.store.indirect"
_ADDRESS = re.compile(rf"\butil\.global\.address\s+(?:immutable\s+)?@({_SYMBOL})")


def stored(text: str) -> list[str]:
    """Return the names of the globals to which the functions of a module write.

    `text` is the module as the compiler printed it. Globals to which only initializers write are left out."""
    functions = re.sub(r"^  util\.initializer \{.*?^  \}", "", text, flags=re.MULTILINE | re.DOTALL)
    matches = [*_STORE.finditer(functions), *(_ADDRESS.finditer(functions) if _INDIRECT in functions else ())]
    return list(dict.fromkeys(_symbol(match[1]) for match in matches))


def without_resources(text: str) -> str:
    """Return a printed module without the data of its `dense_resource` attributes, which may be huge."""
    begin = text.rfind("\n{-#")
    return text if begin < 0 else text[: begin + 1]


def callable_name(name: str) -> bool:
    """Return whether the runtime's tools accept `name` as the name of a function.

    They accept no zero byte and no invalid UTF-8. In `name`, U+FFFD stands for bytes that are not valid UTF-8."""
    return "\ufffd" not in name and "\0" not in name


def mentions(text: str, name: str) -> bool:
    """Return whether `text` may contain the symbol `name`, quoted, escaped or plain."""
    return re.search(rf'[@"]{re.escape(name)}(?![\w.$-])', unescaped(text)) is not None


def module_name(text: str) -> str:
    """Return the name that a module has after it is compiled.

    A module without a name is called `module`."""
    match = re.search(rf"^module @({_SYMBOL})", text, re.MULTILINE)
    return _symbol(match[1]) if match else "module"


def declarations(text: str) -> dict[str, Declaration]:
    """Return a dict from the name of each outermost public function to its types.

    `text` is the module as the compiler printed it. A type that is neither a tensor nor a number keeps its MLIR
    spelling."""
    found = {}
    for match in _FUNCTION.finditer(text):
        bound = _BOUND.search(text, match.end(), text.find("\n", match.end()))
        types = _declared(unescaped(bound[1]), 0) if bound else _declared(text, match.end() - 1)
        found[_symbol(match[1])] = types
    return found


def _declared(text: str, opening: int) -> Declaration:
    end = closing(text, opening)
    inputs = [part.split(":", 1)[1] for part in split(text[opening + 1 : end])]
    tail = _ARROW.match(text, end + 1)
    if tail is None:
        return Declaration(tuple(map(spelling, inputs)), ())
    begin = tail.end()
    if text[begin] == "(":
        results = split(text[begin + 1 : closing(text, begin)])
    else:
        after = _AFTER.search(text, begin)
        results = [text[begin : after.start() if after else None]]
    return Declaration(tuple(map(spelling, inputs)), tuple(spelling(_RESULT.sub("", result)) for result in results))


def from_facts(facts: Mapping[str, Sequence[Sequence[str]]]) -> dict[str, Declaration]:
    """Convert the result of `to_facts` back to declarations."""
    return {name: Declaration(tuple(inputs), tuple(results)) for name, (inputs, results) in facts.items()}


def to_facts(found: Mapping[str, Declaration]) -> dict[str, list[list[str]]]:
    return {name: [list(d.inputs), list(d.results)] for name, d in found.items()}


def _symbol(written: str) -> str:
    return unescaped(written[1:-1]) if written.startswith('"') else written


def spelling(written: str) -> str:
    """Return an MLIR type as the runtime's tools spell it.

    Tensors of integers or floats are shortened: `tensor<4x8xf32>` and `!torch.vtensor<[4,8],f32>` become `4x8xf32`.
    For rank 0, both forms become `tensor<f32>`. Other types are cut at the first space."""
    text = written.strip()
    if match := _TENSOR.match(text):
        return f"{match[1]}{match[2]}" if match[1] else f"tensor<{match[2]}>"
    if match := _TORCH.match(text):
        element = re.sub(r"^[su]i(?=\d)", "i", match[2])
        dims = [dim for dim in match[1].split(",") if dim]
        return "x".join([*dims, element]) if dims else f"tensor<{element}>"
    return text.split(" ")[0]
