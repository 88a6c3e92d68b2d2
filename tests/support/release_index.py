"""A local package index with tiny wheels, from which pip fetches fake releases of IREE."""

from __future__ import annotations

import io
import os
import threading
import zipfile
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.tools import compiler_folder

from dispatchflow.store.store import Store
from dispatchflow.tools import releases

NOWHERE = {
    "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
    "PIP_RETRIES": "1",
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_FIND_LINKS": "",
    "PIP_EXTRA_INDEX_URL": "",
    "PIP_NO_CACHE_DIR": "1",
}
"""Environment variables with which pip finds no packages: no server answers at the index's URL."""

STARTS = f"'{compiler_folder()}/iree-lld' -flavor gnu --version > /dev/null\n"
"""A line for a shell script that replaces the compiler; the line starts a real program, `iree-lld`.

dispatchflow identifies such a script by the programs that it starts, and refuses a script that starts none."""
COMPILER = f"#!/bin/sh\n{STARTS}echo IREE compiler version {{version}}rc20990102 @ 0123456789abcdef\n"
FILES = {
    "iree_base_compiler": {
        "iree/compiler/_mlir_libs/iree-compile": COMPILER,
        "iree/compiler/_mlir_libs/libIREECompiler.so": "the library of {version}" + " " * 200_000,
        "iree/compiler/_mlir_libs/_mlir.so": "a Python binding",
    },
    "iree_base_runtime": {
        "iree/_runtime_libs/iree-run-module": "#!/bin/sh\n",
        "iree/_runtime_libs/iree-benchmark-module": "#!/bin/sh\n",
        "iree/_runtime_libs/version.py": 'VERSION = "{version}"\n',
        "iree/runtime/array.py": "a Python binding",
    },
}


def wheel(name: str, version: str) -> bytes:
    folder = f"{name}-{version}.dist-info"
    files = {path: text.replace("{version}", version) for path, text in FILES[name].items()}
    files[f"{folder}/METADATA"] = f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
    files[f"{folder}/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\n"
    files[f"{folder}/RECORD"] = ""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return stream.getvalue()


class Index:
    """An HTTP server of two fake releases of IREE, 9.8.0 and 9.9.0, with URLs like those of PyPI.

    While the event `open` is cleared, each download of a wheel stops halfway, for at most 60 s."""

    def __init__(self) -> None:
        self.wheels = {
            f"{name}-{version}-py3-none-any.whl": wheel(name, version)
            for name in FILES
            for version in ("9.8.0", "9.9.0")
        }
        self.sent: Counter[str] = Counter()
        self.open = threading.Event()
        self.open.set()
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.answer(self)

            def log_message(self, *words: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.environment = {**NOWHERE, "PIP_INDEX_URL": f"http://127.0.0.1:{self.server.server_port}/simple"}

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        name = request.path.strip("/").split("/")[-1]
        content = self.wheels.get(name)
        page = content is None
        if content is None:
            links = [file for file in self.wheels if file.startswith(name.replace("-", "_"))]
            content = "".join(f'<a href="/files/{link}">{link}</a>\n' for link in links).encode()
        request.send_response(200)
        request.send_header("Content-Type", "text/html" if page else "application/octet-stream")
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        if not page:
            self.sent[name] += 1
            if not self.open.is_set():
                request.wfile.write(content[: len(content) // 2])
                self.open.wait(60)
                content = content[len(content) // 2 :]
        request.wfile.write(content)


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    served = Index()
    thread = threading.Thread(target=served.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    for name, value in served.environment.items():
        monkeypatch.setenv(name, value)
    yield served
    served.open.set()
    served.server.shutdown()
    thread.join()
    served.server.server_close()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def assert_nothing_left(store: Store) -> None:
    assert list(releases.folder(store).glob("*")) == []
    assert list((store.root / "tmp").iterdir()) == []
