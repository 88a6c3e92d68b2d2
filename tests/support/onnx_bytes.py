"""Make the bytes of ONNX files; the package `onnx` is not needed."""


def field(number, content):
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(value):
    return bytes([value & 0x7F | 0x80]) + varint(value >> 7) if value > 0x7F else bytes([value])


def tensor(place):
    entry = field(13, field(1, "location") + field(2, place)), field(13, field(1, "offset") + field(2, "4096"))
    return b"\x08\x04\x10\x01" + field(8, "w") + b"".join(entry) + b"\x70\x01"


def node(attribute):
    return field(1, field(1, "x") + field(4, "If") + field(5, field(1, "value") + attribute))


def model(graph, name="net"):
    return b"\x08\x08" + field(2, "a producer") + field(7, graph + field(2, name)) + field(8, b"\x10\x11")
